"""Current states of NVMe controllers: /sys/class/nvme/*/state.

Source: drivers/nvme/host/sysfs.c nvme_sysfs_show_state(). The driver answers from memory. For
temperatures and wear it would query the drive, and a drive that hangs would block the reader for a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.sysfs import device_pci_address

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

_CLASS = "sys/class/nvme"


def read_drives(read: Reader) -> dict[str, str]:
    """Return the state of each NVMe controller on the PCI bus by address; one whose state is unknown is left out."""
    paths = {device_pci_address(read, path): path for path in (f"{_CLASS}/{name}" for name in read.names(_CLASS))}
    states = ((address, read.text(f"{path}/state")) for address, path in paths.items() if address is not None)
    return {address: state for address, state in states if state is not None}
