"""The quota tree of ClusterQueues and Cohorts (pkg/cache/hierarchy, pkg/cache/scheduler)."""
