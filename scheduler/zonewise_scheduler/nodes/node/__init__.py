"""A node and its pods as kube-scheduler's filters see them: NodeInfo, requests, host ports."""
