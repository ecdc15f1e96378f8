"""Pods in flight: placed by us or bound by others, and not yet in their node's report."""
