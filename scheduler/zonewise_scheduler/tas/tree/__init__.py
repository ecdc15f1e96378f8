"""A Topology as a tree of domains over nodes."""
