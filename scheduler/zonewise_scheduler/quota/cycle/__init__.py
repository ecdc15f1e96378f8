"""The scheduling cycle: decisions about one head of each ClusterQueue (pkg/scheduler/scheduler.go)."""
