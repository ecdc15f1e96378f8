"""Scores of nodes: the best node for a pod, and for the pods that are still pending."""
