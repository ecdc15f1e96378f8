"""Preemption: selects the workloads that a preemptor evicts to get quota or a placement (pkg/scheduler/preemption)."""
