"""Which NICs are physical. Virtual functions belong to pods and come and go; software emulates RDMA on other NICs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import RdmaDevice


def virtual_functions(machine: Machine) -> set[str]:
    """Return the PCI addresses of virtual functions."""
    return {function.address for function in machine.pci if function.physical_function is not None}


def physical_rdma(machine: Machine) -> list[RdmaDevice]:
    """Return the RDMA devices that neither software nor a virtual function provides."""
    virtual = virtual_functions(machine)
    return [device for device in machine.infiniband if not device.software and device.address not in virtual]
