"""The Device Manager (pkg/kubelet/cm/devicemanager)."""
