"""The plan: which workloads start now, who gives way to them, what is promised to others; quotas, places and time."""
