"""The tree of ClusterQueues and Cohorts with its quotas and what is used of them."""
