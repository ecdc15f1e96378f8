"""The kinds of kueue.x-k8s.io as values, and their readers (apis/kueue/v1beta2, pkg/workload, pkg/resources)."""
