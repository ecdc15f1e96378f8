"""The next write for a job, its Workload and its pods, as functions of observed objects and decisions."""
