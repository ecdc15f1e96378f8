"""NUMA zones below the host: which pods the kubelets admit, and which zones they assign."""
