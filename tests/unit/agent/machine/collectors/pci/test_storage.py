"""Block devices: which ones are hardware, their parents, and their attributes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pci_trees import BRIDGE, NVME, ONE_ZONE, TWO_ZONES, PciScan, PciTree, run, zone
from zonewise.machine.collector import NoData, Peek
from zonewise.machine.collectors.pci.storage import COLLECTOR
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import BlockDevice
from zonewise.machine.model.machine import Machine
from zonewise.machine.reader import Reader

CLASS = "sys/class/block"


class DiskTree(PciTree):
    """A tree with block devices in addition to functions."""

    def disk(
        self,
        device_path: str,
        *,
        directory: str = CLASS,
        size: object = 2048,
        rotational: object = 0,
        model: str | None = None,
        **more: object,
    ) -> str:
        """Add a block device at a path below /sys/devices and return its name."""
        name = device_path.rpartition("/")[2]
        self.contents[f"{directory}/{name}"] = f"{'../' * directory.count('/')}devices/{device_path}"
        values = {"size": size, "queue/rotational": rotational, **more}
        if model is not None:
            values["device/model"] = model
        self.contents |= {f"sys/devices/{device_path}/{key}": f"{value}\n".encode() for key, value in values.items()}
        return name

    def only(self) -> BlockDevice:
        """Return the only block device that is listed."""
        (device,) = self.collect().machine.block_devices
        return device


ROOT = "pci0000:10/0000:10:01.0"
SSD = f"{ROOT}/0000:11:00.0"


def ssd_tree() -> DiskTree:
    """Return an NVMe disk as kernel 6 lists it."""
    tree = DiskTree()
    tree.add(ROOT, BRIDGE, node=1, cpus="8-15")
    tree.add(SSD, NVME, node=1, cpus="8-15")
    tree.disk(f"{SSD}/nvme/nvme0/nvme0n1", size=7501476528, model="SAMSUNG MZQL23T8HCLS-00A07             ")
    return tree


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ({}, (None, None, None)),
        ({"queue/dax": 0, "queue/zoned": "none", "queue/nr_zones": 0}, (False, "none", 0)),
        ({"queue/dax": 1, "queue/zoned": "host-managed", "queue/nr_zones": 904}, (True, "host-managed", 904)),
    ],
)
def test_a_queue(queue: dict[str, Any], expected: tuple[bool | None, str | None, int | None]) -> None:
    """The queue shows whether files can be mapped and whether writes are zoned; on older kernels, it shows neither."""
    tree = DiskTree()
    tree.add(ROOT, BRIDGE, node=1, cpus="8-15")
    tree.add(SSD, NVME, node=1, cpus="8-15")
    tree.disk(f"{SSD}/nvme/nvme0/nvme0n1", model="X", **queue)
    drive = tree.only()
    assert (drive.dax, drive.zoned, drive.zone_count) == expected
    assert tree.collect().problems == []


def test_an_nvme_namespace() -> None:
    """Size in bytes from sectors of 512, the model without padding, the function and its zone are read."""
    tree = ssd_tree()
    assert tree.only() == BlockDevice(
        "nvme0n1", "0000:11:00.0", 1, 3840755982336, False, "SAMSUNG MZQL23T8HCLS-00A07", "nvme"
    )
    assert tree.collect().problems == []


@pytest.mark.parametrize(
    ("device_path", "address", "transport"),
    [
        (f"{SSD}/nvme/nvme0/nvme0n2", "0000:11:00.0", "nvme"),
        (f"{SSD}/block/nvme0n1", "0000:11:00.0", "nvme"),
        (f"{SSD}/virtio2/block/vda", "0000:11:00.0", "virtio"),
        (f"{SSD}/virtio0/host2/target2:0:0/2:0:0:0/block/sda", "0000:11:00.0", "scsi"),
        (f"{SSD}/ata1/host0/target0:0:0/0:0:0:0/block/sda", "0000:11:00.0", "scsi"),
        ("platform/a0000000.virtio_mmio/virtio0/block/vda", None, "virtio"),
        ("platform/soc/fe340000.mmc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", None, None),
        ("vbd-51712/block/xvda", None, None),
        ("css0/0.0.0001/0.0.0200/block/dasda", None, None),
    ],
)
def test_transports(device_path: str, address: str | None, transport: str | None) -> None:
    """The path of a disk shows how it is attached; a virtio-scsi disk is a SCSI disk."""
    tree = DiskTree()
    tree.add(ROOT, BRIDGE)
    tree.add(SSD, "010000")
    tree.disk(device_path, model="X")
    device = tree.only()
    assert (device.address, device.transport, device.size) == (address, transport, 1 << 20)


@pytest.mark.parametrize(
    "device_path",
    [
        "virtual/block/loop0",
        "virtual/block/dm-0",
        "virtual/block/md127",
        "virtual/block/zram0",
        "virtual/block/nbd0",
        "virtual/nvme-fabrics/ctl/nvme1/nvme1n1",
        "rbd/0/block/rbd0",
        f"{SSD}/nvme/nvme0/nvme0c0n1",
        f"{SSD}/nvme/nvme0/nvme0n1/nvme0n1p1",
    ],
)
def test_omitted_devices(device_path: str) -> None:
    """Software devices, remote ones, hidden paths of a multipath head, and partitions are omitted."""
    tree = ssd_tree()
    tree.disk(device_path)
    assert tree.only().name == "nvme0n1"


def test_a_multipath_head_is_at_its_first_controller() -> None:
    """A namespace with several controllers is a virtual device; its subsystem leads to them."""
    tree = DiskTree()
    tree.add(ROOT, BRIDGE)
    tree.add(SSD, NVME, node=1, cpus="8-15")
    subsystem = "virtual/nvme-subsystem/nvme-subsys0"
    tree.disk(f"{subsystem}/nvme0n1", model="X")
    tree.contents |= {
        f"sys/devices/{subsystem}/nvme9": "../../nvme-fabrics/ctl/nvme9",
        f"sys/devices/{subsystem}/nvme10": f"../../../{SSD}/nvme/nvme10",
        f"sys/devices/{subsystem}/model": b"X\n",
    }
    device = tree.only()
    assert (device.name, device.address, device.zone, device.transport) == ("nvme0n1", "0000:11:00.0", 1, "nvme")


@pytest.mark.parametrize(
    ("node", "nearest", "problems"), [("1", 1, 0), ("2", 0, 0), ("-1", None, 0), ("9", None, 1), ("x", None, 1)]
)
def test_persistent_memory(node: str, nearest: int | None, problems: int) -> None:
    """It has no function and names its zone itself; for a zone without CPUs, the nearest zone with CPUs is used."""
    tree = DiskTree()
    device_path = "LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/pfn0.0/block/pmem0"
    tree.disk(device_path, **{"device/numa_node": node})
    discovered = tree.collect((*TWO_ZONES, zone(2, "", {"0": 17, "1": 28})))
    (device,) = discovered.machine.block_devices
    assert (device.name, device.address, device.zone, device.transport) == ("pmem0", None, nearest, "pmem")
    assert len(discovered.problems) == problems


def test_rotating_disks_and_empty_drives() -> None:
    """The disk rotates; the drive has no medium, so its size is really 0."""
    tree = DiskTree()
    tree.add(ROOT, "010601")
    tree.disk(f"{ROOT}/ata1/host0/target0:0:0/0:0:0:0/block/sda", rotational=1, model="ST9250610NS")
    tree.disk(f"{ROOT}/ata2/host1/target1:0:0/1:0:0:0/block/sr0", rotational=1, size=0, model="DVD+-RW")
    disks = tree.collect().machine.block_devices
    assert [(disk.name, disk.rotational, disk.size) for disk in disks] == [("sda", True, 1 << 20), ("sr0", True, 0)]


def test_order_is_natural() -> None:
    """nvme2 comes before nvme10."""
    tree = DiskTree()
    tree.add(ROOT, BRIDGE)
    tree.add(SSD, NVME)
    for number in (10, 2):
        tree.disk(f"{SSD}/nvme/nvme{number}/nvme{number}n1", model="X")
    assert [disk.name for disk in tree.collect().machine.block_devices] == ["nvme2n1", "nvme10n1"]


# --- old kernels


def test_lists_of_old_kernels() -> None:
    """Without /sys/class/block, the older list is used, and this is reported."""
    tree = DiskTree()
    tree.add(ROOT, "010601")
    tree.disk(f"{ROOT}/host0/target0:0:0/0:0:0:0/block/sda", directory="sys/block", model="X")
    discovered = tree.collect()
    assert [disk.name for disk in discovered.machine.block_devices] == ["sda"]
    assert [(problem.path, problem.used) for problem in discovered.problems] == [(f"/{CLASS}", "/sys/block")]


def test_directories_instead_of_links() -> None:
    """Before kernel 2.6.26, an entry was a directory; only hardware has a link to its device."""
    tree = PciTree()
    tree.add(ROOT, "010601")
    tree.contents |= {
        "sys/block/sda/device": f"../../devices/{ROOT}/host0/target0:0:0/0:0:0:0",
        "sys/block/sda/size": b"2048\n",
        "sys/block/sda/queue/rotational": b"1\n",
        "sys/block/loop0/size": b"0\n",
    }
    (disk,) = tree.collect().machine.block_devices
    assert (disk.name, disk.address, disk.size) == ("sda", "0000:10:01.0", 1 << 20)


# --- damage


@pytest.mark.parametrize(
    ("name", "field"), [("size", "size"), ("queue/rotational", "rotational"), ("device/model", "model")]
)
@pytest.mark.parametrize("content", [None, b"", b"\n", b"(null)\n"])
def test_lost_facts_are_unknown_and_reported(name: str, field: str, content: bytes | None) -> None:
    """If it is absent or empty, the fact is None, never 0 or False, and the file is named."""
    tree = ssd_tree()
    path = f"sys/devices/{SSD}/nvme/nvme0/nvme0n1/{name}"
    del tree.contents[path]
    if content is not None:
        tree.contents[path] = content
    discovered = tree.collect()
    (disk,) = discovered.machine.block_devices
    assert getattr(disk, field) is None
    assert [problem.path for problem in discovered.problems] == [f"/{CLASS}/nvme0n1/{name}"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("size", b"-8\n"), ("size", b"36028797018963968\n"), ("size", b"1e9\n"), ("queue/rotational", b"2\n")],
)
def test_nonsense_is_unknown_and_reported(name: str, content: bytes) -> None:
    """A size below zero or beyond any file offset, and an invalid boolean, are unknown."""
    tree = ssd_tree()
    tree.contents[f"sys/devices/{SSD}/nvme/nvme0/nvme0n1/{name}"] = content
    discovered = tree.collect()
    (disk,) = discovered.machine.block_devices
    assert (disk.size is None) == (name == "size")
    assert (disk.rotational is None) == (name != "size")
    assert len(discovered.problems) == 1


def test_a_dangling_disk_has_its_name_and_location() -> None:
    """The class lists it, so it exists; unknown facts are reported."""
    tree = ssd_tree()
    tree.contents = {path: content for path, content in tree.contents.items() if "/nvme/" not in path}
    tree.contents[f"{CLASS}/nvme0n1"] = f"../../devices/{SSD}/nvme/nvme0/nvme0n1"
    discovered = tree.collect()
    (disk,) = discovered.machine.block_devices
    assert (disk.address, disk.zone, disk.size, disk.rotational, disk.model) == ("0000:11:00.0", 1, None, None, None)
    assert len(discovered.problems) == 3


@pytest.mark.parametrize(
    "contents", [[], [(CLASS, None)], [(f"{CLASS}/loop0", "../../devices/virtual/block/loop0")], [(f"{CLASS}/a", "a")]]
)
def test_machines_without_disks(contents: list[tuple[str, bytes | str | None]]) -> None:
    """Without entries, with only software devices, or with an entry that leads to itself, there is no data."""
    with pytest.raises(NoData, match="no block device"):
        COLLECTOR.collect(Reader(MemoryFiles([*contents, ("sys/block", None)])), Machine())


@given(st.text(alphabet="./abcdevirtual0123456789:pcinme", max_size=40), st.binary(max_size=12))
def test_no_content_raises(target: str, content: bytes) -> None:
    """Any text in a link and any bytes in a file raise no exception."""
    tree = ssd_tree()
    tree.contents[f"{CLASS}/sdz"] = target
    tree.contents[f"sys/devices/{SSD}/nvme/nvme0/nvme0n1/size"] = content
    discovered: PciScan = tree.collect(ONE_ZONE)
    assert "nvme0n1" in {disk.name for disk in discovered.machine.block_devices}


# --- sources and rescans


def test_sources() -> None:
    """Each fact names its file; other facts name the entry of the device."""
    sources = ssd_tree().collect().sources
    assert sources["block_devices.nvme0n1.size"].value == "7501476528"
    assert sources["block_devices.nvme0n1"].value == f"sys/devices/{SSD}/nvme/nvme0/nvme0n1"
    assert "block_devices.nvme0n1.model" in sources


def test_what_causes_a_rescan() -> None:
    """A new disk and a disk that has grown cause a rescan; a new loop device does not."""
    tree = ssd_tree()

    def signature() -> object:
        return COLLECTOR.volatile(Peek(tree.files()))

    before = signature()
    tree.disk("virtual/block/loop1")
    assert signature() == before
    tree.contents[f"sys/devices/{SSD}/nvme/nvme0/nvme0n1/size"] = b"9\n"
    grown = signature()
    tree.disk(f"{SSD}/nvme/nvme0/nvme0n2")
    assert len({before, grown, signature()}) == 3


def test_a_namespace_of_a_fabric_causes_a_rescan() -> None:
    """A multipath head is the disk; its controllers are virtual devices if they are reached over a network."""
    tree = ssd_tree()
    files = [tree.files()]
    tree.disk("virtual/nvme-fabrics/ctl/nvme1/nvme1c1n1")
    head = tree.disk("virtual/nvme-subsystem/nvme-subsys1/nvme1n1")
    files.append(tree.files())
    tree.contents["sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1/size"] = b"9\n"
    files.append(tree.files())
    assert head in {disk.name for disk in tree.collect().machine.block_devices}
    assert len({COLLECTOR.volatile(Peek(each)) for each in files}) == 3


def test_only_the_disks_of_the_machine() -> None:
    """Without PCI, a disk still has its name and size, but no zone."""
    tree = DiskTree()
    tree.disk("platform/mmc/block/mmcblk0")
    discovered = run(tree.files(), Machine(), (COLLECTOR,))
    assert discovered.machine.block_devices == (BlockDevice("mmcblk0", None, None, 1 << 20, False, None, None),)
