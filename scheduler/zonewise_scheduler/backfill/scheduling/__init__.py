"""Scheduling passes: which workloads start and stop now, and which get a reservation."""
