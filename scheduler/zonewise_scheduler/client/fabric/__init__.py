"""The labels and Topologies that `zonewise fabric` writes."""
