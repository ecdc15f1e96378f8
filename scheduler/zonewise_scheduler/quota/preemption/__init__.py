"""Preemption: which workloads a preemptor evicts to get quota or a placement (pkg/scheduler/preemption)."""
