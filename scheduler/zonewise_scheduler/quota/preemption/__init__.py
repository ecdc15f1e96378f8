"""Preemption: which workloads give way to another."""
