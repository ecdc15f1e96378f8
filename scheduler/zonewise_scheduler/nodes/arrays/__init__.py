"""All nodes at once: the kubelets' verdicts on a pod for a whole cluster, as arrays."""
