"""Accelerators other than GPUs, and DMA engines: found by PCI class and ids, with the names that their drivers use.

Class codes are too coarse: half of these devices have the class "system peripheral". So this module has tables of ids
and of the device classes that drivers register.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.pci.classes import COPROCESSOR, PROCESSING_ACCELERATOR
from zonewise.machine.collectors.pci.functions import DEVICES
from zonewise.machine.model.host import Accelerator
from zonewise.machine.sysfs import device_pci_address

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.reader import Reader


class _Registry(NamedTuple):
    """A directory in which drivers register their devices."""

    directory: str
    prefix: str
    """Prefix of the device names; a number follows it."""
    kind: str
    """Kind of the devices in the directory, unless ids are more exact; "" if the directory only names devices that are
    known from elsewhere."""
    suffix: str = ""
    """Suffix after the number."""
    platform: bool = False
    """Whether devices without a PCI function count: an FPGA of a system-on-chip does, one of its DMA
    channels does not.
    """


DMA = "dma"
"""The kind of engines that copy memory and are not accelerators."""

_REGISTRIES = (
    _Registry("sys/bus/dsa/devices", "dsa", DMA),  # drivers/dma/idxd
    _Registry("sys/bus/dsa/devices", "iax", "compression"),
    _Registry("sys/class/accel", "accel", "accelerator", platform=True),  # Documentation/accel
    _Registry("sys/class/habanalabs", "hl", "accelerator"),  # the same before kernel 6.3
    _Registry("sys/class/neuron_device", "neuron", "accelerator"),
    _Registry("sys/class/ve", "ve", "vector"),
    _Registry("sys/class/mic", "mic", "accelerator"),
    _Registry("sys/class/uacce", "hisi_zip-", "compression"),  # drivers/misc/uacce
    _Registry("sys/class/uacce", "hisi_sec2-", "crypto"),
    _Registry("sys/class/uacce", "hisi_hpre-", "crypto"),
    _Registry("sys/class/fpga_manager", "fpga", "fpga", platform=True),
    _Registry("sys/class/fpga_region", "region", "fpga"),
    _Registry("sys/class/dma", "dma", "", suffix="chan0"),  # one channel represents its engine
)
"""In order of preference: a function gets its name from the first registry that lists it."""

_NX_GZIP = "sys/devices/vio/ibm,compression-v1/nx_gzip_caps"
"""The compression accelerator in POWER processors: arch/powerpc/platforms/pseries/vas-sysfs.c."""

_INTEL = "8086"
_KNOWN = {
    # drivers/dma/idxd/registers.h: Data Streaming Accelerator, In-Memory Analytics Accelerator
    (_INTEL, "0b25"): DMA,
    (_INTEL, "11fb"): DMA,
    (_INTEL, "1212"): DMA,
    (_INTEL, "0cfe"): "compression",
    (_INTEL, "1216"): "compression",
    # Dynamic Load Balancer 2.0 and 2.5, which schedules packets
    (_INTEL, "2710"): "accelerator",
    (_INTEL, "2714"): "accelerator",
    # drivers/fpga/dfl-pci.c
    (_INTEL, "09c4"): "fpga",
    (_INTEL, "0b30"): "fpga",
    (_INTEL, "af00"): "fpga",
    (_INTEL, "bcce"): "fpga",
    # drivers/accel/ivpu/ivpu_drv.h
    (_INTEL, "7d1d"): "inference",
    (_INTEL, "ad1d"): "inference",
    (_INTEL, "643e"): "inference",
    (_INTEL, "b03e"): "inference",
    # AWS Neuron: Inferentia, Trainium, Inferentia2, Trainium2
    ("1d0f", "7064"): "inference",
    ("1d0f", "7164"): "accelerator",
    ("1d0f", "7264"): "inference",
    ("1d0f", "7364"): "accelerator",
    # drivers/accel/amdxdna; Coral Edge TPU
    ("1022", "1502"): "inference",
    ("1022", "17f0"): "inference",
    ("1ac1", "089a"): "inference",
}
"""Kinds by vendor and device, regardless of the class."""

_BY_VENDOR = {"10ee": "fpga", "1172": "fpga", "1bcf": "vector", "1e60": "inference", "17cb": "inference"}
"""Kinds, by vendor, of devices with an accelerator class: Xilinx, Altera, NEC, Hailo, Qualcomm."""


_BY_DRIVER = {"ioatdma": DMA}
"""Kinds of devices with many ids and one driver: Intel's DMA engines before the Data Streaming Accelerator."""


class _Registered(NamedTuple):
    """A device in a driver's registry."""

    name: str
    path: str
    address: str | None
    kind: str


def _collect(read: Reader, machine: Machine) -> Machine:
    registered = _registered(read)
    by_address: dict[str, _Registered] = {}
    for device in registered:
        if device.address is not None:
            by_address.setdefault(device.address, device)
    gpus = {gpu.address for gpu in machine.gpus}
    devices: list[Accelerator] = []
    for function in machine.pci:
        device = by_address.get(function.address)
        kind = None if function.address in gpus else _kind(function, device)
        if kind is not None:
            devices.append(_accelerator(read, function, device, kind))
    devices += [_platform_device(read, device) for device in registered if device.address is None]
    if not devices:
        raise NoData("neither an accelerator nor a DMA engine")
    return machine._replace(
        accelerators=tuple(device for device in devices if device.kind != DMA),
        dma_engines=tuple(device for device in devices if device.kind == DMA),
    )


def _registered(read: Reader) -> list[_Registered]:
    names = {directory: read.names(directory) for directory in {registry.directory for registry in _REGISTRIES}}
    devices: list[_Registered] = []
    for registry in _REGISTRIES:
        for name in names[registry.directory]:
            number = name.removeprefix(registry.prefix).removesuffix(registry.suffix)
            if f"{registry.prefix}{number}{registry.suffix}" != name or not number.isdecimal():
                continue
            path = f"{registry.directory}/{name}"
            address = device_pci_address(read, path)
            if address is not None or registry.platform:
                devices.append(_Registered(name, path, address, registry.kind))
    if read.has(_NX_GZIP):
        devices.append(_Registered("nx_gzip", _NX_GZIP, None, "compression"))
    return devices


def _kind(function: PciFunction, device: _Registered | None) -> str | None:
    """Return the kind of accelerator that a function is; None if it is not one."""
    registered = "" if device is None else device.kind
    if registered not in ("", "accelerator"):
        return registered
    vendor, pci_class = function.vendor or "", function.pci_class or ""
    known = _KNOWN.get((vendor, function.device or "")) or _BY_DRIVER.get(function.driver or "")
    if known is not None:
        return known
    if pci_class == COPROCESSOR and vendor == _INTEL:
        # Xeon Phi is 225x; all other ids belong to drivers/crypto/intel/qat
        return "accelerator" if (function.device or "").startswith("225") else "crypto"
    if pci_class == COPROCESSOR or pci_class[:2] == PROCESSING_ACCELERATOR:
        return _BY_VENDOR.get(vendor, "accelerator")
    return registered or None


def _accelerator(read: Reader, function: PciFunction, device: _Registered | None, kind: str) -> Accelerator:
    name, path = (function.address, f"{DEVICES}/{function.address}") if device is None else device[:2]
    ids = f"class {function.pci_class}, {function.vendor}:{function.device}"
    fact = "dma_engines" if kind == DMA else "accelerators"
    read.source(f"{fact}.{name}", path, ids, "PCI class and ids, and the class of devices that its driver has")
    return Accelerator(name, function.address, function.zone, kind, function.vendor, function.device, function.driver)


def _platform_device(read: Reader, device: _Registered) -> Accelerator:
    read.source(f"accelerators.{device.name}", device.path, None, "registered by its driver, without a PCI function")
    return Accelerator(device.name, None, None, device.kind, None, None, None)


def _volatile(peek: Peek) -> Hashable:
    """Notice devices that drivers register when they are loaded or configured."""
    return tuple(peek.names(directory) for directory in sorted({registry.directory for registry in _REGISTRIES}))


COLLECTOR = Collector(
    name="accelerators",
    provides=("accelerators", "dma_engines"),
    needs=("pci", "gpus"),
    collect=_collect,
    volatile=_volatile,
)
