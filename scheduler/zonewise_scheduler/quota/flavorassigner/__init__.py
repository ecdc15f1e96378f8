"""Flavor assignment: selects the flavors of a workload's pod sets (pkg/scheduler/flavorassigner)."""
