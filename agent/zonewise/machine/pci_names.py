"""Names of PCI devices from pci.ids, the list that lspci uses, if the system or the user has a copy.

The format is that of https://pci-ids.ucw.cz: a line for each vendor ("10de  NVIDIA Corporation"), below it one for each
device after a tab, below that subsystems after two tabs. Drivers provide better names, which take precedence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.machine.files import Files
    from zonewise.machine.model.machine import Machine

PCI_IDS = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/pci.ids", "var/lib/pciutils/pci.ids")
"""Where distributions install the list, below the root."""

PciIds = tuple[str, str]
"""Vendor and device, 4 hexadecimal digits each."""

_NEXT_VENDOR = re.compile(r"\n(?=[^\t#\n])")


def read_pci_ids(files: Files, paths: Iterable[str] = PCI_IDS) -> str:
    """Return the text of the first list that can be read; an empty text if there is none."""
    for path in paths:
        try:
            return files.read(path).decode("utf-8", "replace")
        except OSError:
            continue
    return ""


def pci_names(text: str, devices: Iterable[PciIds]) -> dict[PciIds, str]:
    """Return the names of devices in a list; lines of other devices and damaged lines are skipped."""
    by_vendor: dict[str, set[str]] = {}
    for vendor, device in devices:
        by_vendor.setdefault(vendor, set()).add(device)
    names: dict[PciIds, str] = {}
    for section in _NEXT_VENDOR.split(text) if by_vendor else ():
        vendor = section[:4].lower()
        needed = by_vendor.get(vendor, set())
        for line in section.split("\n") if needed else ():
            if line[:1] == "\t" and (device := line[1:5].lower()) in needed and (name := line[5:].strip()):
                names.setdefault((vendor, device), name)
    return names


def with_pci_names(machine: Machine, text: str) -> Machine:
    """Return the machine with the list's names for its PCI functions."""
    ids = {(function.vendor, function.device) for function in machine.pci if function.vendor and function.device}
    names: Mapping[tuple[str | None, str | None], str] = {**pci_names(text, ids)}
    functions = (function._replace(name=names.get((function.vendor, function.device))) for function in machine.pci)
    return machine._replace(pci=tuple(functions)) if names else machine
