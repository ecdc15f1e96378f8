"""NICs that a hypervisor or a cloud adds and removes while the machine runs: their absence is not a fault.

Network plugins of clouds attach such NICs for pods, and detach them (amazon-vpc-cni-k8s, terway). A virtual function
that speeds up a paravirtual NIC is removed while its host is serviced, and the paravirtual NIC takes over
(Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst, Documentation/networking/net_failover.rst).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

_VENDORS = frozenset({"1af4", "1d0f", "15ad"})
"""PCI vendors of such NICs: Red Hat (virtio), Amazon (ENA), VMware (vmxnet3). RDMA devices of the same vendors, such as
Amazon's EFA, are attached only to a stopped machine, as are Google's gVNICs."""
_SLOW_PATHS = frozenset({"hv_netvsc", "virtio_net"})
"""Drivers of paravirtual NICs that a virtual function may speed up."""


def hot_plugged_nics(machine: Machine) -> frozenset[str]:
    """Return the addresses of these NICs."""
    vendors = {function.address: function.vendor for function in machine.pci}
    drivers = {nic.name: nic.driver for nic in machine.nics}
    rdma = {device.address for device in machine.infiniband}
    return frozenset(
        nic.address
        for nic in machine.nics
        if nic.address is not None
        and (
            drivers.get(nic.master or "") in _SLOW_PATHS
            or (vendors.get(nic.address) in _VENDORS and nic.address not in rdma)
        )
    )
