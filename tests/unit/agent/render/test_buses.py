"""Devices below the buses that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.machine_parts import Slot, function
from zonewise.render.boxes import Bus, Device
from zonewise.render.buses import group_by_bus
from zonewise.render.devices import LocatedDevice

if TYPE_CHECKING:
    from collections.abc import Sequence


def located(name: str, address: str, *bridges: str, kind: str = "network", root: str = "pci0000:00") -> LocatedDevice:
    """Return a device at a location."""
    own = function(address, "0200", ("10de", "2330"), Slot(root, bridges, 0))
    return LocatedDevice(Device(kind, (name,), (address,), f"model {name}"), 0, own)


def shape(items: Sequence[Bus | Device]) -> list[object]:
    """Return buses as (names, items on them) and devices as their names."""
    return [(item.names, shape(item.items)) if isinstance(item, Bus) else item.names for item in items]


def test_a_root_with_one_device_is_omitted() -> None:
    """The ports above the device are omitted too."""
    assert shape(group_by_bus([located("a", "0000:05:00.0", "0000:00:01.0")])) == [("a",)]


def test_devices_on_several_ports_share_their_root() -> None:
    """The ports are omitted, the host bridge is not."""
    devices = [located("a", "0000:05:00.0", "0000:00:01.0"), located("b", "0000:06:00.0", "0000:00:02.0")]
    assert shape(group_by_bus(devices)) == [(("PCI 0000:00",), [("a",), ("b",)])]


def test_a_switch_below_its_own_root_is_one_bus() -> None:
    """Root port, upstream port and downstream ports form one switch, which is named together with the host bridge."""
    above = ("0000:00:01.0", "0000:01:00.0")
    devices = [
        located("a", "0000:05:00.0", *above, "0000:02:00.0"),
        located("b", "0000:06:00.0", *above, "0000:02:01.0"),
    ]
    assert shape(group_by_bus(devices)) == [(("PCI 0000:00", "switch 01:00.0"), [("a",), ("b",)])]


def test_switches_below_a_switch_are_nested() -> None:
    """A device below both switches is in the inner one."""
    outer, inner = ("p", "up"), ("p", "up", "d0", "up2")
    devices = [
        located("a", "0000:05:00.0", *inner, "e0"),
        located("b", "0000:06:00.0", *inner, "e1"),
        located("c", "0000:07:00.0", *outer, "d1"),
    ]
    assert shape(group_by_bus(devices)) == [
        (("PCI 0000:00", "switch up"), [(("switch up2",), [("a",), ("b",)]), ("c",)]),
    ]


def test_functions_of_one_card_need_no_switch() -> None:
    """Two ports of a card below one root port are below the host bridge."""
    devices = [located("a", "0000:05:00.0", "0000:00:01.0"), located("b", "0000:05:00.1", "0000:00:01.0")]
    assert shape(group_by_bus(devices)) == [(("PCI 0000:00",), [("a",), ("b",)])]


def test_gpus_come_first() -> None:
    """GPUs precede other devices, and a bus with a GPU precedes one without."""
    devices = [
        located("n", "0000:01:00.0"),
        located("s", "0000:02:00.0", kind="storage"),
        located("m", "0001:01:00.0", root="pci0001:00"),
        located("g", "0001:02:00.0", root="pci0001:00", kind="gpu"),
    ]
    assert shape(group_by_bus(devices)) == [
        (("PCI 0001:00",), [("g",), ("m",)]),
        (("PCI 0000:00",), [("n",), ("s",)]),
    ]


def test_a_root_named_by_its_path_shows_its_name() -> None:
    """The host bridge of a virtual machine may be known only by a long path."""
    root = "devices/LNXSYSTM:00/VMBUS:01/47505500-0001/pci0001:00"
    devices = [located(name, f"0001:0{i}:00.0", root=root) for i, name in enumerate("ab")]
    assert shape(group_by_bus(devices))[0] == (("PCI 0001:00",), [("a",), ("b",)])


def test_devices_without_a_function_are_not_grouped() -> None:
    """They are not grouped, since nothing is known about a common bus."""
    alone = [LocatedDevice(Device("storage", (name,), (), name), 0, None) for name in ("pmem0", "pmem1")]
    assert shape(group_by_bus(alone)) == [("pmem0",), ("pmem1",)]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.sampled_from("abc"), max_size=3), st.sampled_from(["gpu", "storage"])),
        max_size=12,
    )
)
def test_every_device_is_present_once(positions: list[tuple[int, list[str], str]]) -> None:
    """However bridges are nested, no device is lost, and every bus has at least two items."""
    devices = [
        located(f"d{i}", f"0000:{i:02x}:00.0", *bridges, kind=kind, root=f"pci0000:{root:02x}")
        for i, (root, bridges, kind) in enumerate(positions)
    ]
    names: list[str] = []

    def walk(items: Sequence[Bus | Device]) -> None:
        for item in items:
            if isinstance(item, Bus):
                before = len(names)
                walk(item.items)
                assert len(names) > before + 1
            else:
                names.extend(item.names)

    walk(group_by_bus(devices))
    assert sorted(names) == sorted(entry.device.names[0] for entry in devices)
