"""The Memory Manager's Static policy (pkg/kubelet/cm/memorymanager)."""
