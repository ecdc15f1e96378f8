"""Assumed pods, which the extender sent to a node or others bound, and which the node's report does not include yet."""
