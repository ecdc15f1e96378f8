"""Topology-aware scheduling: which leaves of a Topology the pods of a workload are assigned (Kueue's tas_* files)."""
