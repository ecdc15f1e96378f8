"""Kueue in the same cluster: who manages the queues, and how they are handed over."""
