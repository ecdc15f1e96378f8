"""Workload objects: built from jobs, compared with them, and their status from decisions."""
