"""NUMA zones below the host: what the kubelets of the nodes admit, and the zones that they assign."""
