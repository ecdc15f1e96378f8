"""Every node at once: what the kubelets of a whole cluster would answer, as arrays."""
