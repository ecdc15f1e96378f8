"""Which NICs are physical. Virtual functions belong to pods and come and go; software emulates RDMA on other NICs.

A NIC on USB is usually the BMC's, which workloads do not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.collectors.pci.classes import usb_controllers

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import RdmaDevice


def virtual_functions(machine: Machine) -> set[str]:
    """Return the PCI addresses of virtual functions."""
    return {function.address for function in machine.pci if function.physical_function is not None}


def physical_netdevs(machine: Machine) -> set[str]:
    """Return the PCI addresses of network devices that are neither virtual functions nor on USB."""
    addresses = {nic.address for nic in machine.nics if nic.address is not None}
    return addresses - virtual_functions(machine) - usb_controllers(machine.pci)


def physical_rdma(machine: Machine) -> list[RdmaDevice]:
    """Return the RDMA devices that neither software nor a virtual function provides."""
    virtual = virtual_functions(machine)
    return [device for device in machine.infiniband if not device.software and device.address not in virtual]
