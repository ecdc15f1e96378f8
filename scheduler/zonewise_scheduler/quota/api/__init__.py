"""Values: queues, cohorts, flavors, workloads, and settings."""
