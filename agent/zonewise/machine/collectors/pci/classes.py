"""The class codes of PCI functions: PCI Code and ID Assignment Specification, include/linux/pci_ids.h.

A class with its subclass has four hexadecimal digits, as in PciFunction.pci_class; a base class is the first two
digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.model.pci import PciFunction

NETWORK = "02"
DISPLAY = "03"
PROCESSING_ACCELERATOR = "12"
NVME = "0108"
COPROCESSOR = "0b40"
USB_CONTROLLER = "0c03"
INFINIBAND = "0c06"
BRIDGES = ("0604", "0609")
"""PCI-to-PCI bridges, the second semi-transparent; they include root ports and the ports of switches."""

_ENDPOINT_BASES = (NETWORK, DISPLAY, PROCESSING_ACCELERATOR)
_ENDPOINT_CLASSES = (NVME, COPROCESSOR, INFINIBAND)


def is_endpoint(function: PciFunction) -> bool:
    """Return whether workloads should be placed close to a function: network, GPU, accelerator, NVMe."""
    pci_class = function.pci_class
    return pci_class is not None and (pci_class[:2] in _ENDPOINT_BASES or pci_class in _ENDPOINT_CLASSES)


def usb_controllers(functions: Iterable[PciFunction]) -> frozenset[str]:
    """Return the addresses of USB controllers: a NIC at one of them is on USB, usually the BMC's, and not on PCI."""
    return frozenset(function.address for function in functions if function.pci_class == USB_CONTROLLER)
