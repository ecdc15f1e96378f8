"""Accelerators: which functions are accelerators, of which kind, and their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pci_trees import NETWORK, ONE_ZONE, PciTree, run
from zonewise.machine.collector import NoData, Peek
from zonewise.machine.collectors.pci.accelerators import COLLECTOR
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.gpu import Gpu
from zonewise.machine.model.host import Accelerator
from zonewise.machine.model.machine import Machine
from zonewise.machine.reader import Reader

WAY = "pci0000:6a/0000:6a:01.0"
ADDRESS = "0000:6a:01.0"


def single_function(pci_class: str, ids: str, driver: str | None = None) -> PciTree:
    """Return a tree with one function."""
    tree = PciTree()
    tree.add(WAY, pci_class, f"{ids}:{ids}")
    if driver is not None:
        tree.link(ADDRESS, "driver", f"../../../bus/pci/drivers/{driver}")
    return tree


def devices_of(machine: Machine) -> tuple[Accelerator, ...]:
    """Return accelerators and DMA engines; each device is in only one of the two lists."""
    assert {device.kind for device in machine.dma_engines} <= {"dma"}
    assert "dma" not in {device.kind for device in machine.accelerators}
    return (*machine.accelerators, *machine.dma_engines)


@pytest.mark.parametrize(
    ("pci_class", "ids", "kind"),
    [
        ("088000", "8086:0b25", "dma"),
        ("088000", "8086:0cfe", "compression"),
        ("0b4000", "8086:2710", "accelerator"),
        ("0b4000", "8086:225c", "accelerator"),
        ("0b4000", "8086:4940", "crypto"),
        ("0b4000", "8086:37c9", "crypto"),
        ("0b4000", "1bcf:001c", "vector"),
        ("0b4000", "1e60:2864", "inference"),
        ("120000", "8086:bcce", "fpga"),
        ("120000", "8086:7d1d", "inference"),
        ("120000", "10ee:5000", "fpga"),
        ("120000", "17cb:a100", "inference"),
        ("120000", "1da3:1020", "accelerator"),
        ("120000", "ffff:0001", "accelerator"),
        ("088000", "1d0f:7164", "accelerator"),
        ("088000", "1d0f:7264", "inference"),
        ("118000", "1022:17f0", "inference"),
        ("088000", "1ac1:089a", "inference"),
    ],
)
def test_without_a_driver(pci_class: str, ids: str, kind: str) -> None:
    """Class and ids identify a function without a driver; its name is then its address."""
    discovered = single_function(pci_class, ids).collect(ONE_ZONE)
    vendor, device = ids.split(":")
    assert devices_of(discovered.machine) == (Accelerator(ADDRESS, ADDRESS, 0, kind, vendor, device, None),)
    assert discovered.problems == []


@pytest.mark.parametrize(
    ("pci_class", "ids"),
    [("088000", "8086:3c20"), ("020000", "8086:37d2"), ("060400", "10b5:9797"), ("108000", "1022:1498")],
)
def test_functions_that_are_not_accelerators(pci_class: str, ids: str) -> None:
    """Unknown system peripherals, NICs, bridges and the security processor are not accelerators."""
    assert single_function(pci_class, ids).collect(ONE_ZONE).machine.accelerators == ()


@pytest.mark.parametrize(
    ("pci_class", "ids", "driver", "entry", "below", "name", "kind"),
    [
        ("088000", "8086:0b25", "idxd", "sys/bus/dsa/devices/dsa0", "dsa0", "dsa0", "dma"),
        ("088000", "8086:ffff", "idxd", "sys/bus/dsa/devices/iax1", "iax1", "iax1", "compression"),
        ("120000", "1da3:1020", "habanalabs", "sys/class/accel/accel0", "accel/accel0", "accel0", "accelerator"),
        ("ff0000", "abcd:0001", "novel", "sys/class/accel/accel3", "accel/accel3", "accel3", "accelerator"),
        ("120000", "1da3:1000", "habanalabs", "sys/class/habanalabs/hl0", "habanalabs/hl0", "hl0", "accelerator"),
        ("088000", "1d0f:7264", "neuron", "sys/class/neuron_device/neuron0", "neuron_device/neuron0", "neuron0",
         "inference"),
        ("0b4000", "1bcf:001c", "ve_drv", "sys/class/ve/ve5", "ve/ve5", "ve5", "vector"),
        ("0b4000", "8086:225c", "mic", "sys/class/mic/mic0", "mic/mic0", "mic0", "accelerator"),
        ("120000", "19e5:a250", "hisi_zip", "sys/class/uacce/hisi_zip-0", "uacce/hisi_zip-0", "hisi_zip-0",
         "compression"),
        ("100000", "19e5:a255", "hisi_sec2", "sys/class/uacce/hisi_sec2-1", "uacce/hisi_sec2-1", "hisi_sec2-1",
         "crypto"),
        ("120000", "8086:bcce", "dfl-pci", "sys/class/fpga_region/region0", "fpga_region/region0", "region0", "fpga"),
        ("088000", "8086:3c20", "ioatdma", "sys/class/dma/dma0chan0", "dma/dma0chan0", "dma0chan0", "dma"),
    ],
)  # fmt: skip
def test_with_a_driver(pci_class: str, ids: str, driver: str, entry: str, below: str, name: str, kind: str) -> None:
    """The driver gives the name; its device class may also give the kind."""
    tree = single_function(pci_class, ids, driver)
    tree.contents[entry] = f"{'../' * (entry.count('/') - 1)}devices/{WAY}/{below}"
    discovered = tree.collect(ONE_ZONE)
    vendor, device = ids.split(":")
    assert devices_of(discovered.machine) == (Accelerator(name, ADDRESS, 0, kind, vendor, device, driver),)
    fact = "dma_engines" if kind == "dma" else "accelerators"
    assert f"{fact}.{name}" in discovered.sources


def test_channels_of_an_engine_form_a_single_accelerator() -> None:
    """A DMA engine with several channels has the name of the first; its other names are ignored."""
    tree = single_function("088000", "8086:3c20", "ioatdma")
    for name in ("dma4chan0", "dma4chan1", "dma4chan2"):
        tree.contents[f"sys/class/dma/{name}"] = f"../../devices/{WAY}/dma/{name}"
    assert [accelerator.name for accelerator in devices_of(tree.collect(ONE_ZONE).machine)] == ["dma4chan0"]


def test_work_queues_are_not_devices() -> None:
    """The bus of the Data Streaming Accelerator lists engines, groups and queues too."""
    tree = single_function("088000", "8086:0b25", "idxd")
    for name in ("engine0.0", "group0.0", "wq0.0", "dsa0"):
        tree.contents[f"sys/bus/dsa/devices/{name}"] = f"../../../devices/{WAY}/dsa0/{name}"
    assert [accelerator.name for accelerator in devices_of(tree.collect(ONE_ZONE).machine)] == ["dsa0"]


@pytest.mark.parametrize(
    ("entry", "accelerators"),
    [
        ("sys/class/fpga_manager/fpga0", (Accelerator("fpga0", None, None, "fpga", None, None, None),)),
        ("sys/class/accel/accel0", (Accelerator("accel0", None, None, "accelerator", None, None, None),)),
        ("sys/class/dma/dma0chan0", ()),
    ],
)
def test_parts_of_the_platform(entry: str, accelerators: tuple[Accelerator, ...]) -> None:
    """An FPGA or an NPU of a system-on-chip counts; its many DMA channels do not."""
    name = entry.rpartition("/")[2]
    files = MemoryFiles([(entry, f"../../devices/platform/soc/f8007000.device/{name}")])
    assert run(files, Machine(), (COLLECTOR,)).machine.accelerators == accelerators


def test_gpus_are_not_listed_twice() -> None:
    """A GPU with the class of a processing accelerator, such as MI300X, is a GPU."""
    tree = single_function("120000", "1002:74a1", "amdgpu")
    gpu = Gpu(ADDRESS, None, "amd", None, None, 0, None, None, None, None)
    assert tree.collect(ONE_ZONE, (gpu,)).machine.accelerators == ()


def test_order_is_by_address() -> None:
    """The order is that of the functions; the platform's own devices follow."""
    tree = PciTree()
    for domain in (0x10000, 0, 1):
        tree.add(f"pci{domain:04x}:00/{domain:04x}:00:00.0", "120000", "1da3:1020:1da3:0000")
    tree.contents["sys/class/fpga_manager/fpga0"] = "../../devices/platform/fpga_manager/fpga0"
    names = [accelerator.name for accelerator in devices_of(tree.collect(ONE_ZONE).machine)]
    assert names == ["0000:00:00.0", "0001:00:00.0", "10000:00:00.0", "fpga0"]


def test_without_accelerators_there_is_no_data() -> None:
    """Most machines have no accelerator."""
    machine = single_function(NETWORK, "15b3:1021").collect(ONE_ZONE).machine
    with pytest.raises(NoData, match="neither an accelerator"):
        COLLECTOR.collect(Reader(MemoryFiles([])), machine)


def test_the_registration_of_a_driver_causes_a_rescan() -> None:
    """Configuring a device names it, without any change on the PCI bus."""
    tree = single_function("088000", "8086:0b25", "idxd")
    before = COLLECTOR.volatile(Peek(tree.files()))
    tree.contents["sys/bus/dsa/devices/dsa0"] = f"../../../devices/{WAY}/dsa0"
    assert COLLECTOR.volatile(Peek(tree.files())) != before


@given(st.text(alphabet="./abcdef0123456789:pci", max_size=40))
def test_no_link_raises(target: str) -> None:
    """Whatever the target of an entry, there is no exception, and the function does not change."""
    tree = single_function("0b4000", "1bcf:001c")
    tree.contents["sys/class/ve/ve0"] = target
    assert [accelerator.kind for accelerator in devices_of(tree.collect(ONE_ZONE).machine)] == ["vector"]


def test_the_compression_of_power() -> None:
    """A logical partition whose processors compress has a directory of their features, and no PCI function."""
    files = MemoryFiles([("sys/devices/vio/ibm,compression-v1/nx_gzip_caps/min_compress_len", b"0\n")])
    discovered = COLLECTOR.collect(Reader(files), Machine()).accelerators
    assert discovered == (Accelerator("nx_gzip", None, None, "compression", None, None, None),)
