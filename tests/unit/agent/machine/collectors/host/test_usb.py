"""USB devices: their ids and classes, but never their serial numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.damage import DAMAGES, Damage, Damaged, Recording
from support.trees import Contents, line
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.host.usb import COLLECTOR, DEVICES
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import UsbDevice


def tree() -> Contents:
    """Return a tree with a root hub, a camera with one class per interface, and a debugging adapter."""
    entries: Contents = {}
    for name, device_class, vendor, product in (
        ("usb1", "09", "1d6b", "0002"),
        ("1-1", "00", "046d", "0825"),
        ("1-2.1", "ff", "0403", "6014"),
    ):
        entries |= {
            f"{DEVICES}/{name}/bDeviceClass": line(device_class),
            f"{DEVICES}/{name}/idVendor": line(vendor),
            f"{DEVICES}/{name}/idProduct": line(product),
            f"{DEVICES}/{name}/serial": line("S3CRET"),
        }
    for number, interface_class in enumerate(("0e", "0e", "01")):
        entries[f"{DEVICES}/1-1:1.{number}/bInterfaceClass"] = line(interface_class)
    entries[f"{DEVICES}/1-0:1.0/bInterfaceClass"] = line("09")
    return entries


def scan(contents: Contents, damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(contents.items()), damages or {})
    return Scanner(files, explain=True, collectors=(COLLECTOR,)).scan()


def test_devices() -> None:
    """A device that leaves its class to its interfaces has the classes of all of them."""
    machine = scan(tree()).machine
    assert machine.usb == (
        UsbDevice("1-1", "046d", "0825", ("0e", "0e", "01")),
        UsbDevice("1-2.1", "0403", "6014", ("ff",)),
        UsbDevice("usb1", "1d6b", "0002", ("09",)),
    )
    assert machine.problems == ()


def test_no_serial_number_is_read() -> None:
    """A serial number identifies a person's property."""
    recording = Recording(MemoryFiles(tree().items()))
    Scanner(recording, collectors=(COLLECTOR,)).scan()
    assert [path for path in recording.reads if path.endswith("serial")] == []


@pytest.mark.parametrize("name", ["idVendor", "idProduct", "bDeviceClass"])
@pytest.mark.parametrize("content", [b"", b"xyz\n", b"12345\n"])
def test_ids_that_are_damaged(name: str, content: bytes) -> None:
    """An id in another format is unknown and reported; the device remains."""
    machine = scan(tree() | {f"{DEVICES}/1-2.1/{name}": content}).machine
    assert len(machine.usb) == 3
    assert f"/{DEVICES}/1-2.1/{name}" in {problem.path for problem in machine.problems}


@given(st.dictionaries(st.sampled_from([*sorted(tree()), DEVICES]), DAMAGES, min_size=1, max_size=5))
def test_damage_does_not_fail_the_collector(damages: dict[str, Damage]) -> None:
    """Whatever happens to the files, the collector does not fail."""
    assert [run for run in scan(tree(), damages).runs if run.outcome == "failed"] == []


def test_plugging_is_noticed() -> None:
    """Another device gives another signature."""
    more = tree() | {f"{DEVICES}/1-3/idVendor": line("1234")}
    before, after = (COLLECTOR.volatile(Peek(MemoryFiles(contents.items()))) for contents in (tree(), more))
    assert before != after
