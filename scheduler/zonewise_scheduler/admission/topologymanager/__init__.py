"""The Topology Manager: bit masks, hints, policies (pkg/kubelet/cm/topologymanager)."""
