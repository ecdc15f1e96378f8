"""Places pods: the pod that kube-scheduler filters, and all waiting pods in scheduling passes."""
