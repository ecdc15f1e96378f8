"""The kinds of kueue.x-k8s.io as values, with their readers (apis/kueue/v1beta2, pkg/workload, pkg/resources)."""
