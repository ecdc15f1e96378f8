"""The Topology Manager: bit masks, hints and policies (pkg/kubelet/cm/topologymanager)."""
