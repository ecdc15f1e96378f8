"""The verdicts of all kubelets of a cluster on a pod, computed at once as arrays."""
