"""Pending workloads of ClusterQueues, in their order (pkg/cache/queue)."""
