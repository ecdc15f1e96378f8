"""The order in which workloads wait."""
