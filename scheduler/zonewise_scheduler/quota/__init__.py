"""Kueue's rules: quotas, flavors, preemption and the order of pending workloads."""
