"""The filters of kube-scheduler that need only nodes and pods."""
