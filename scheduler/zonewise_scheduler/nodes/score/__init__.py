"""Which of the nodes that take a pod is the best for it, and for those that wait."""
