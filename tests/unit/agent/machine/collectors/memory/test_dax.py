"""DAX devices: the zone that each is or would become, the kind of memory, and the driver."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, DELETE, Damage, Damaged
from support.trees import Contents, line
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.memory import dax
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import DaxDevice

NVDIMM = "LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region5/dax5.1/dax5.0"
HMEM = "platform/hmem.1/dax1.0"
CXL = "platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax10.0"


def add_dax(tree: Contents, parent: str, target: int, driver: str | None, near: int = 0) -> None:
    """Add a device at a path below sys/devices."""
    name = parent.rpartition("/")[2]
    tree[f"sys/bus/dax/devices/{name}"] = f"../../../devices/{parent}"
    values = {"size": 512 << 20, "target_node": target, "numa_node": near}
    tree |= {f"sys/devices/{parent}/{key}": line(value) for key, value in values.items()}
    tree[f"sys/devices/{parent}/uevent"] = f"DEVNAME={name}\nDRIVER={driver}\n".encode() if driver else b"\n"
    if driver:
        tree[f"sys/bus/dax/drivers/{driver}/{name}"] = f"../../../../devices/{parent}"


def three() -> Contents:
    """Return a tree with one device of each kind."""
    tree: Contents = {}
    add_dax(tree, CXL, 3, "kmem")
    add_dax(tree, HMEM, 4, "device_dax", 1)
    add_dax(tree, NVDIMM, 6, None)
    return tree


def scan_dax(tree: Contents, damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, explain=True, collectors=(dax.COLLECTOR,)).scan()


def test_three_kinds() -> None:
    """A device below an NVDIMM bus is NVM, one below a region of a decoder is CXL, and the rest was set aside.

    The devices are sorted by name.
    """
    scan = scan_dax(three())
    size = 512 << 20
    assert scan.machine.dax_devices == (
        DaxDevice("dax1.0", 4, size, "device_dax", "SPM", 1, cxl=False),
        DaxDevice("dax5.0", 6, size, None, "NVM", 0, cxl=False),
        DaxDevice("dax10.0", 3, size, "kmem", "SPM", 0, cxl=True),
    )
    assert scan.machine.problems == ()
    assert scan.sources["dax_devices.dax1.0.zone"].value == "4"


def test_no_zone() -> None:
    """-1 is not a zone, neither as the target nor as the nearest."""
    tree: Contents = {}
    add_dax(tree, HMEM, -1, "device_dax", -1)
    (device,) = scan_dax(tree).machine.dax_devices
    assert (device.zone, device.numa_node) == (None, None)


def test_old_kernels_have_the_nearest_zone_of_the_parent() -> None:
    """Before Linux 5.10, only the parent device has a numa_node."""
    tree: Contents = {}
    add_dax(tree, NVDIMM, 6, None)
    del tree[f"sys/devices/{NVDIMM}/numa_node"]
    tree[f"sys/devices/{NVDIMM.rpartition('/')[0]}/numa_node"] = line(1)
    assert scan_dax(tree).machine.dax_devices[0].numa_node == 1


def test_the_driver_by_its_directory_or_by_the_uevent() -> None:
    """Either of them names the driver."""
    for lost in ("sys/bus/dax/drivers/kmem", f"sys/devices/{CXL}/uevent"):
        device = {each.name: each.driver for each in scan_dax(three(), {lost: Damage(DELETE)}).machine.dax_devices}
        assert device["dax10.0"] == "kmem"


def test_nothing() -> None:
    """Most machines have no DAX device; this is not a problem."""
    scan = scan_dax({"sys/bus/dax/devices": None})
    assert [run.outcome for run in scan.runs] == ["no data"]
    assert scan.machine.problems == ()


def test_a_lost_list_of_devices_is_reported() -> None:
    """A driver with devices shows that some exist."""
    scan = scan_dax(three(), {"sys/bus/dax/devices": Damage(DELETE)})
    assert scan.machine.dax_devices == ()
    assert scan.machine.problems[0].path == "/sys/bus/dax/devices"


@pytest.mark.parametrize("content", [b"", b"x\n", b"-5\n", b"9" * 30 + b"\n", b"1152921504606846976\n"])
def test_impossible_sizes(content: bytes) -> None:
    """A size that is lost, negative or beyond any address space is unknown and reported."""
    scan = scan_dax(three() | {f"sys/devices/{HMEM}/size": content})
    assert scan.machine.dax_devices[0].size is None
    assert len(scan.machine.problems) == 1


def test_an_impossible_zone() -> None:
    """A node beyond what any kernel supports is damage."""
    scan = scan_dax(three() | {f"sys/devices/{HMEM}/target_node": b"4096\n"})
    assert scan.machine.dax_devices[0].zone is None
    assert len(scan.machine.problems) == 1


def test_an_entry_that_is_not_a_link() -> None:
    """Without the location of a device, the kind of its memory is unknown."""
    tree: Contents = {f"sys/bus/dax/devices/dax0.0/{name}": line(1) for name in ("size", "target_node", "numa_node")}
    scan = scan_dax(tree)
    assert scan.machine.dax_devices == (DaxDevice("dax0.0", 1, 1, None, None, 1),)
    assert len(scan.machine.problems) == 1


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted([*three(), "sys/bus/dax/devices", "sys/bus/dax/drivers/kmem"])),
        DAMAGES,
        min_size=1,
        max_size=6,
    )
)
def test_damage_invents_nothing(damages: dict[str, Damage]) -> None:
    """Whatever is damaged, no device is added, and nothing fails."""
    scan = scan_dax(three(), damages)
    assert [run for run in scan.runs if run.outcome == "failed"] == []
    assert {each.name for each in scan.machine.dax_devices} <= {"dax1.0", "dax5.0", "dax10.0"}
    assert all(each.size is None or each.size >= 0 for each in scan.machine.dax_devices)


def test_what_causes_a_rescan() -> None:
    """A device that gets another driver or size gives another signature."""
    tree = three()
    before = dax.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    for change in ({f"sys/devices/{HMEM}/size": line(5)}, {f"sys/devices/{HMEM}/driver": "../kmem"}):
        assert dax.COLLECTOR.volatile(Peek(MemoryFiles((tree | change).items()))) != before
