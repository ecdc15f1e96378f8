"""Topology-aware scheduling: assigns the pods of a workload to leaves of a Topology (Kueue's tas_* files)."""
