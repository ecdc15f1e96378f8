"""Kueue in the same cluster: which controller manages the queues, and how they are handed over."""
