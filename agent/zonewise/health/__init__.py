"""Faults of a node's hardware, and the pods that they hit."""
