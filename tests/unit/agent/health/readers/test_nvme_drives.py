"""The states of NVMe controllers; only drives on the PCI bus belong to the machine."""

from __future__ import annotations

import pytest

from support.trees import Contents, line
from zonewise.health.readers.nvme_drives import read_drives
from zonewise.machine.files import MemoryFiles
from zonewise.machine.reader import Reader

ADDRESS = "10000:01:00.0"
CONTROLLER = f"devices/pci10000:00/10000:00:02.0/{ADDRESS}/nvme/nvme3"


def read(tree: Contents) -> dict[str, str]:
    return read_drives(Reader(MemoryFiles(tree.items())))


@pytest.mark.parametrize("state", ["live", "resetting", "deleting (no IO)", "dead"])
def test_states(state: str) -> None:
    tree: Contents = {"sys/class/nvme/nvme3": f"../../{CONTROLLER}", f"sys/{CONTROLLER}/state": line(state)}
    assert read(tree) == {ADDRESS: state}


def test_an_unknown_state_is_not_a_state() -> None:
    tree: Contents = {"sys/class/nvme/nvme3": f"../../{CONTROLLER}", f"sys/{CONTROLLER}/model": line("MZQL27T6HBLA")}
    assert read(tree) == {}
    assert read(tree | {f"sys/{CONTROLLER}/state": b""}) == {}


def test_a_drive_of_another_machine() -> None:
    """NVMe over Fabrics: the controller is a virtual device."""
    fabric = "devices/virtual/nvme-fabrics/ctl/nvme0"
    assert read({"sys/class/nvme/nvme0": f"../../{fabric}", f"sys/{fabric}/state": line("dead")}) == {}
