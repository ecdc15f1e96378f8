"""One node as kube-scheduler counts it: totals, requests of its pods, host ports."""
