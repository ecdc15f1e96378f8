"""The next write for a job, its Workload and its pods: functions of observed objects and of decisions."""
