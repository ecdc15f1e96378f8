"""Assumed pods: sent to a node by us or bound by others, and not yet in the node's report."""
