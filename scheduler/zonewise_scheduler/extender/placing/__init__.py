"""Places pods: one that kube-scheduler filters, and all that wait, in scheduling passes."""
