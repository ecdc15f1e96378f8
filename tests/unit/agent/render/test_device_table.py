"""The devices of a box as lines on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.render.boxes import Bus, Device
from zonewise.render.canvas import line_width
from zonewise.render.device_table import DeviceTable

GPU = Device("gpu", ("GPU0",), ("19:00.0",), "NVIDIA H100", None, "Gen5 x16")
NIC = Device("network", ("eth0",), ("02:00.0",), "Ethernet 25 Gb/s", "down", "Gen4 x4/8", ("+ 4 VFs",), ("degraded",))
DRIVES = Device("storage", ("nvme0n1", "nvme1n1"), ("1a:00.0", "1b:00.0"), "NVMe 1 TiB")
ITEMS = (Bus(("PCI 0000:15", "switch 16:00.0"), (GPU, Bus(("switch 17:00.0",), (NIC, DRIVES)))), NIC)

WORDS = st.text("abcdefgh 0123456789:./", max_size=24)
DEVICES = st.builds(
    Device,
    st.sampled_from(["gpu", "network", "storage", "accelerator", "memory"]),
    st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    st.lists(WORDS, max_size=3).map(tuple),
    WORDS.filter(bool),
    st.none() | WORDS,
    st.none() | WORDS,
    st.lists(WORDS, max_size=2).map(tuple),
    st.lists(WORDS, max_size=2).map(tuple),
)
TREES = st.lists(
    st.recursive(
        DEVICES,
        lambda inner: st.builds(
            Bus, st.lists(WORDS, min_size=1, max_size=2).map(tuple), st.lists(inner, min_size=1, max_size=3).map(tuple)
        ),
        max_leaves=6,
    ),
    min_size=1,
    max_size=4,
)


def shown(width: int) -> list[str]:
    """Return the lines of the example for this number of columns."""
    return ["".join(text for _, text in line).rstrip() for line in DeviceTable(ITEMS).lines(width)]


def test_everything_in_one_line_if_it_fits() -> None:
    """Name, model, link and address have columns, followed by remarks."""
    assert shown(120) == [
        "PCI 0000:15 · switch 16:00.0",
        "├ GPU0                NVIDIA H100             Gen5 x16   19:00.0",
        "└ switch 17:00.0",
        "  ├ eth0              Ethernet 25 Gb/s, down  Gen4 x4/8  02:00.0             + 4 VFs  ! degraded",
        "  └ nvme0n1..nvme1n1  2 × NVMe 1 TiB                     1a:00.0,..,1b:00.0",
        "─ eth0                Ethernet 25 Gb/s, down  Gen4 x4/8  02:00.0             + 4 VFs  ! degraded",
    ]


def test_addresses_are_omitted_first() -> None:
    """If addresses do not fit, they are omitted, and remarks are on the next line."""
    assert shown(60) == [
        "PCI 0000:15 · switch 16:00.0",
        "├ GPU0                NVIDIA H100             Gen5 x16",
        "└ switch 17:00.0",
        "  ├ eth0              Ethernet 25 Gb/s, down  Gen4 x4/8",
        "  │ + 4 VFs  ! degraded",
        "  └ nvme0n1..nvme1n1  2 × NVMe 1 TiB",
        "─ eth0                Ethernet 25 Gb/s, down  Gen4 x4/8",
        "  + 4 VFs  ! degraded",
    ]


def test_devices_take_several_lines_without_columns() -> None:
    """In few columns, each device has as many lines as it needs, and no data is omitted."""
    assert shown(30) == [
        "PCI 0000:15 · switch 16:00.0",
        "├ GPU0  NVIDIA H100  Gen5 x16",
        "│ 19:00.0",
        "└ switch 17:00.0",
        "  ├ eth0",
        "  │ Ethernet 25 Gb/s, down",
        "  │ Gen4 x4/8  02:00.0",
        "  │ + 4 VFs  ! degraded",
        "  └ nvme0n1..nvme1n1",
        "    2 × NVMe 1 TiB",
        "    1a:00.0,..,1b:00.0",
        "─ eth0  Ethernet 25 Gb/s, down",
        "  Gen4 x4/8  02:00.0  + 4 VFs",
        "  ! degraded",
    ]


@given(TREES, st.integers(30, 160))
def test_no_line_is_too_wide(items: list[Bus | Device], width: int) -> None:
    """Names of devices may have any length."""
    assert all(line_width(line) <= width for line in DeviceTable(items).lines(width))


@given(TREES)
def test_the_requested_widths_are_respected(items: list[Bus | Device]) -> None:
    """At the natural width, every device takes one line; the natural width is not below the minimum."""
    table = DeviceTable(items)
    lines = table.lines(max(table.natural, 30))
    assert len(lines) == len(list(_rows(items)))


def _rows(items: list[Bus | Device] | tuple[Bus | Device, ...]) -> list[object]:
    """Return one item for each line that a tree needs."""
    rows: list[object] = []
    for item in items:
        rows.append(item)
        if isinstance(item, Bus):
            rows += _rows(item.items)
    return rows


@pytest.mark.parametrize("width", [30, 60, 120])
def test_warnings_are_never_omitted(width: int) -> None:
    """At any width, each degraded device has one mark."""
    assert sum(line.count("! degraded") for line in shown(width)) == 2
