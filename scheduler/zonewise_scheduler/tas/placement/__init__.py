"""Topology-aware placement: which domains of a Topology's levels the pods of a workload get."""
