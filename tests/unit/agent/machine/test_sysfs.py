"""PCI addresses in sysfs: the location of a function, and the function of a class device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.files import MemoryFiles
from zonewise.machine.reader import Reader
from zonewise.machine.sysfs import device_pci_address, is_pci_address, pci_location, pci_order

NIC = "0000:3b:00.0"


@pytest.mark.parametrize(
    ("path", "root", "bridges", "host_function"),
    [
        ("sys/devices/pci0000:3a/0000:3a:00.0", "sys/devices/pci0000:3a", (), None),
        (
            "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
            "sys/devices/pci0000:3a",
            ("0000:3a:00.0",),
            None,
        ),
        (
            "sys/devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0",
            "sys/devices/pci0000:64/0000:64:00.5/pci10000:00",
            ("10000:00:02.0",),
            "0000:64:00.5",
        ),
        (
            "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0",
            "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00",
            (),
            None,
        ),
        (
            "sys/devices/platform/40000000.pcie/pci0000:00/0000:00:00.0",
            "sys/devices/platform/40000000.pcie/pci0000:00",
            (),
            None,
        ),
        ("sys/bus/pci/devices/0004:05:00.0", "0004:05", (), None),
        ("a/0004:05:00.0/0004:06:00.0", "0004:05", ("0004:05:00.0",), None),
    ],
)
def test_location_by_path(path: str, root: str, bridges: tuple[str, ...], host_function: str | None) -> None:
    """The last host bridge in a path is the root, wherever it is; without one, domain and bus are used."""
    assert pci_location(path) == (root, bridges, host_function)


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("0000:00:1f.7", True),
        ("10000:e1:00.0", True),
        ("0000:00:20.0", False),
        ("0000:00:00.8", False),
        ("00:1f.0", False),
        ("0000:3B:00.0", False),
        ("pci0000:00", False),
        ("0000:00:00.0 ", False),
    ],
)
def test_addresses(name: str, is_valid: bool) -> None:
    """An address has a full domain, 32 devices and 8 functions, in lower case."""
    assert is_pci_address(name) is is_valid


def test_order_is_by_number() -> None:
    """A domain of five digits follows those of four, and 0a precedes 10."""
    addresses = ["10000:00:00.0", "0000:10:00.0", "0000:0a:00.0", "ffff:00:00.0", "0000:0a:00.1"]
    assert sorted(addresses, key=pci_order) == [
        "0000:0a:00.0",
        "0000:0a:00.1",
        "0000:10:00.0",
        "ffff:00:00.0",
        "10000:00:00.0",
    ]


# --- from a class to its function

LINK_TARGET = f"../../devices/pci0000:3a/0000:3a:00.0/{NIC}"


@pytest.mark.parametrize(
    "contents",
    [
        [("sys/class/net/eth0", f"{LINK_TARGET}/net/eth0")],
        [("sys/class/net/eth0", f"{LINK_TARGET}/virtio0/net/eth0")],
        [("sys/class/net/eth0", f"{LINK_TARGET}/net/eth0/")],
        [("sys/class/net/eth0/device", f"../{LINK_TARGET}")],
        [("sys/class/net/eth0/device", f"../../../{NIC}")],
        [
            ("sys/class/net/eth0/device", "../../../bus/virtio/devices/virtio0"),
            ("sys/bus/virtio/devices/virtio0", f"../../../devices/pci0000:3a/{NIC}/virtio0"),
        ],
    ],
)
def test_class_devices_lead_to_their_function(contents: list[tuple[str, bytes | str | None]]) -> None:
    """The link is the entry itself, or `device` inside a directory; it may lead over virtio or similar buses."""
    assert device_pci_address(Reader(MemoryFiles(contents)), "sys/class/net/eth0") == NIC


@pytest.mark.parametrize(
    "contents",
    [
        [("sys/class/net/eth0", "../../devices/virtual/net/eth0")],
        [("sys/class/net/eth0/address", b"00:00:00:00:00:00\n")],
        [("sys/class/net/eth0", "eth0")],
        [("sys/class/net/eth0", "eth1"), ("sys/class/net/eth1", "eth0")],
        [],
    ],
)
def test_class_devices_without_a_function(contents: list[tuple[str, bytes | str | None]]) -> None:
    """Virtual devices and circular links have no function."""
    assert device_pci_address(Reader(MemoryFiles(contents)), "sys/class/net/eth0") is None


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_every_address_of_the_kernel_is_accepted(domain: int, bus: int, device: int, function: int) -> None:
    """Any address that drivers/pci/probe.c can print is parsed, and sorted by its numbers."""
    address = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    assert is_pci_address(address)
    assert pci_order(address)[0] == domain
    assert pci_order(address) < pci_order(f"{domain + 1:04x}:00:00.0")
