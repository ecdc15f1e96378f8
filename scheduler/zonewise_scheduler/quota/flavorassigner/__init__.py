"""Flavor assignment: which flavors the pod sets of a workload get (pkg/scheduler/flavorassigner)."""
