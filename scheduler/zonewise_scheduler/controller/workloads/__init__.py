"""Workload objects: their creation from jobs, their comparison with jobs, and their status as decisions require."""
