"""The setup of a cluster, and what to repair in it, for `zonewise check`."""
