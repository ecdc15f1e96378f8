"""The kubelet's Pods API: a stream of pod changes."""
