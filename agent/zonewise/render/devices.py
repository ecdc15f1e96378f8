"""The devices in the picture, each with one line: GPUs, network and RDMA ports, drives and accelerators."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise.render.boxes import Device
from zonewise.render.formatting import (
    format_bytes,
    format_count,
    format_link_speed,
    format_name_range,
    format_pcie_speed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise.machine.model.gpu import Gpu, Health, Mig
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Nic, RdmaDevice
    from zonewise.machine.model.pci import PciFunction, PciLink

_NVME = "0108"  # PCI class
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
_NAMED_KINDS = frozenset({"crypto", "compression"})
"""Accelerators that come in dozens, with a PCI id for each position on the chip; their kind is sufficient as a name."""
_PRODUCT = re.compile(r"\[([^\]]+)\]$")
_COMMON_WORDS = re.compile(r"\b(NVMe|PCIe|SSD|Controller|Non-Volatile memory controller)\b ?")
"""Words in the names of drives that repeat other parts of the line."""
_MEMORY_IN_NAME = re.compile(r"\d+ ?GB\b")


class LocatedDevice(NamedTuple):
    """A device with its zone and PCI function."""

    device: Device
    zone: int | None
    function: PciFunction | None


class GpuNames:
    """GPU0, GPU1, ...: numbered by the driver if all GPUs have a number, otherwise in the order of their addresses."""

    def __init__(self, machine: Machine) -> None:
        numbers = [gpu.number for gpu in machine.gpus]
        if None in numbers or len(set(numbers)) < len(numbers):
            numbers = list(range(len(numbers)))
        self._names = {gpu.address: f"GPU{number}" for gpu, number in zip(machine.gpus, numbers, strict=True)}
        self.all = tuple(f"GPU{number}" for number in numbers)

    def gpu_name(self, address: str | None) -> str:
        """Return the name of the GPU at an address; the address itself if there is none."""
        return self._names.get(address) or (address or "unknown")

    def name_group(self, addresses: Sequence[str | None]) -> str:
        """Return the names of several GPUs as one text: "GPU0..GPU3", "GPU0, GPU2"."""
        names = sorted((self.gpu_name(address) for address in set(addresses)), key=self._position)
        positions = [self._position(name) for name in names]
        if len(names) > 2 and positions == list(range(positions[0], positions[0] + len(positions))):
            return format_name_range(names)
        return ", ".join(names)

    def _position(self, name: str) -> int:
        return self.all.index(name) if name in self.all else len(self.all)


class PciLookup:
    """Facts about PCI functions by address."""

    def __init__(self, machine: Machine) -> None:
        self.functions = {function.address: function for function in machine.pci}
        self.virtual = Counter(function.physical_function for function in machine.pci if function.physical_function)
        self._short = all(address.startswith("0000:") for address in self.functions)

    def is_virtual(self, address: str | None, physical: str | None = None) -> bool:
        """Return whether a device is a virtual function whose physical function is shown instead."""
        function = self.functions.get(address or "")
        above = physical or (function.physical_function if function else None)
        return above in self.functions

    def short(self, address: str) -> str:
        """Return an address without its domain if the machine has only domain 0, as lspci does."""
        return address.removeprefix("0000:") if self._short else address

    def locate(self, device: Device, address: str | None, zone: int | None) -> LocatedDevice:
        """Return a device, completed with the facts of its PCI function."""
        function = self.functions.get(address or "")
        if function is None:
            return LocatedDevice(device._replace(addresses=(address,) if address else ()), zone, None)
        count = max(self.virtual[function.address], (function.sriov.enabled or 0) if function.sriov else 0)
        link = _link(function.link) if function.link else None
        narrow = self._narrow_link(function)
        device = device._replace(
            addresses=(self.short(function.address),),
            link=link,
            notes=(*device.notes, *((f"+ {format_count(count, 'VF')}",) if count else ())),
            warnings=(*device.warnings, *narrow),
        )
        return LocatedDevice(device, function.zone if zone is None else zone, function)

    def _narrow_link(self, function: PciFunction) -> tuple[str, ...]:
        """Return why a device uses fewer lanes than it could: its port has no more, or its link is degraded."""
        link, port = function.link, self.functions.get(function.parent or "")
        lanes = port.link.max_width if port and port.link else None
        if link is None or not link.max_width:
            return ()
        if lanes and lanes < link.max_width and link.width in (None, lanes):
            return (f"its port has x{lanes}, of x{link.max_width}",)
        return (f"link degraded to x{link.width}",) if _degraded(link) else ()


def located_devices(machine: Machine) -> list[LocatedDevice]:
    """Return the devices to show: virtual functions are part of their physical one; software devices are omitted."""
    inventory = PciLookup(machine)
    located = [*_gpus(machine, inventory), *_network(machine, inventory), *_storage(machine, inventory)]
    located += _accelerators(machine, inventory)
    shown = {device.function.address for device in located if device.function}
    located += _driverless(machine, inventory, shown)
    return sorted(located, key=_order)


def _order(located: LocatedDevice) -> tuple[str, ...]:
    if located.function is None:
        return ("~",)
    return (*(located.function.root or "~", *located.function.bridges), located.function.address)


def _degraded(link: PciLink) -> bool:
    return bool(link.width and link.max_width and link.width < link.max_width)


def _link(link: PciLink) -> str | None:
    """Format a link: "Gen5 x16"; "Gen1/5 x8/16" if it could be faster or wider, such as the link of an idle device."""
    if not link.width or not link.speed_gts:
        return None
    text = format_pcie_speed(link.speed_gts)
    if link.max_speed_gts and link.speed_gts < link.max_speed_gts:
        text += f"/{format_pcie_speed(link.max_speed_gts).removeprefix('Gen')}"
    return f"{text} x{link.width}/{link.max_width}" if _degraded(link) else f"{text} x{link.width}"


# --- GPUs


def _gpus(machine: Machine, inventory: PciLookup) -> Iterator[LocatedDevice]:
    names = GpuNames(machine)
    for name, gpu in zip(names.all, machine.gpus, strict=True):
        if inventory.is_virtual(gpu.address):
            continue
        what = _gpu_description(gpu, inventory.functions.get(gpu.address or ""))
        device = Device("gpu", (name,), (), what, notes=_gpu_notes(gpu), warnings=tuple(_warnings(gpu)))
        yield inventory.locate(device, gpu.address, gpu.zone)


def gpu_model(gpu: Gpu, function: PciFunction | None = None) -> str:
    """Return the model of a GPU; if the driver reports none, its name in pci.ids, or else its vendor."""
    vendor = _VENDORS.get(gpu.vendor, gpu.vendor)
    if gpu.model or function is None or not function.name:
        return gpu.model or f"{vendor} GPU"
    product = _PRODUCT.search(function.name)  # "GH100 [H100 SXM5 80GB]": the chip, and the product
    return f"{vendor} {product[1] if product else function.name}"


def _gpu_description(gpu: Gpu, function: PciFunction | None) -> str:
    model = gpu_model(gpu, function)
    if function and not (gpu.model or function.name):
        model = f"{model} {_ids(function.vendor, function.device)}".strip()
    return f"{model}, {format_bytes(gpu.memory)}" if gpu.memory and not _MEMORY_IN_NAME.search(model) else model


def _gpu_notes(gpu: Gpu) -> tuple[str, ...]:
    mig = _mig(gpu.mig) if gpu.mig and gpu.mig.enabled else ""
    partition = f"partition {gpu.partition}" if gpu.partition else ""
    driver = f"driver {gpu.driver}" if gpu.driver and gpu.driver.startswith("vfio") else ""
    virtualization = gpu.virtualization if gpu.virtualization not in (None, "none") else ""
    return tuple(note for note in (mig, partition, virtualization, driver) if note)


def _mig(mig: Mig) -> str:
    profiles = Counter(instance.profile or "unknown profile" for instance in mig.instances)
    return "MIG " + (", ".join(f"{number} × {profile}" for profile, number in profiles.items()) or "without instances")


def _warnings(gpu: Gpu) -> Iterator[str]:
    """Yield current problems of a GPU."""
    if gpu.state:
        yield gpu.state
    if gpu.fabric:
        yield from (f"NVLink fabric: {fault}" for fault in gpu.fabric.faults or ())
    if gpu.health:
        yield from _health_warnings(gpu.health)


def _health_warnings(health: Health) -> Iterator[str]:
    if health.ecc_uncorrected:
        yield format_count(health.ecc_uncorrected, "uncorrected ECC error")
    flags = {
        "row remapping failed": health.remapping_failed,
        "row remapping pending": health.remapping_pending,
        "page retirement pending": health.retired_pages_pending,
    }
    yield from (text for text, flag in flags.items() if flag)
    if health.recovery_action not in (None, "none"):
        yield f"needs: {health.recovery_action}"
    yield from (reason for reason in health.throttle_reasons or () if reason.startswith("hw"))
    yield from health.faults


# --- network


_PRESENCES = {"other namespace": "in another network namespace", "user space": "used from user space"}


def _network(machine: Machine, inventory: PciLookup) -> Iterator[LocatedDevice]:
    rdma = {device.name: device for device in machine.infiniband}
    shown: set[str] = set()
    for nic in machine.nics:
        own = rdma.get(nic.rdma or "")
        if nic.virtual or inventory.is_virtual(nic.address, nic.physical_function):
            continue
        shown |= {own.name} if own else set()
        names = (own.name if own else "", nic.name if nic.presence == "netdev" else "")
        name = "/".join(filter(None, names)) or "network"
        notes = () if nic.presence == "netdev" or own else (_PRESENCES.get(nic.presence, nic.presence),)
        function = inventory.functions.get(nic.address or "")
        unseen = _name_or_ids(function) if function and notes else ""
        what = unseen or _nic_description(nic, own)
        device = Device("network", (name,), (), what, _nic_state(nic, own), notes=notes)
        yield inventory.locate(device, nic.address, nic.zone)
    for name, own in rdma.items():
        if name in shown or own.address is None or inventory.is_virtual(own.address):
            continue
        device = Device("network", (name,), (), _rdma_description(own), _rdma_state(own))
        yield inventory.locate(device, own.address, own.zone)


def _nic_description(nic: Nic, rdma: RdmaDevice | None) -> str:
    if nic.speed_mbps and nic.speed_mbps > 0:
        return f"{nic.link_layer or 'network'} {format_link_speed(nic.speed_mbps)}"
    if rdma and any(port.rate_gbps for port in rdma.ports):
        return _rdma_description(rdma)
    return nic.link_layer or "network"


def _nic_state(nic: Nic, rdma: RdmaDevice | None) -> str | None:
    ports = [port for port in rdma.ports if nic.rdma_port in (None, port.number)] if rdma else []
    bad = [port.state for port in ports if port.state and port.state != "ACTIVE"]
    if bad and nic.state == "up":
        return f"port {bad[0].lower()}"
    return nic.state if nic.state and nic.state != "unknown" else None


def _rdma_description(device: RdmaDevice) -> str:
    layers = sorted({port.link_layer for port in device.ports if port.link_layer})
    rates = sorted({port.rate_gbps for port in device.ports if port.rate_gbps})
    layer = "/".join(layers) or "RDMA"
    return f"{layer} {'/'.join(f'{rate:g}' for rate in rates)} Gb/s" if rates else layer


def _rdma_state(device: RdmaDevice) -> str | None:
    states = sorted({port.state.lower() for port in device.ports if port.state})
    return "/".join(states) or None


# --- drives, accelerators, and devices without a driver


def _storage(machine: Machine, inventory: PciLookup) -> Iterator[LocatedDevice]:
    for drive in machine.block_devices:
        if inventory.is_virtual(drive.address):
            continue
        kind = {"nvme": "NVMe", "scsi": "SCSI", None: "disk"}.get(drive.transport, drive.transport)
        amount = f" {format_bytes(drive.size)}" if drive.size else ""
        device = Device("storage", (drive.name,), (), f"{kind}{amount}")
        yield inventory.locate(device, drive.address, drive.zone)


def _accelerators(machine: Machine, inventory: PciLookup) -> Iterator[LocatedDevice]:
    for accelerator in machine.accelerators:
        if inventory.is_virtual(accelerator.address):
            continue
        function = inventory.functions.get(accelerator.address or "")
        name = (function and function.name) or _ids(accelerator.vendor, accelerator.device)
        ids = "" if accelerator.kind in _NAMED_KINDS else name
        device = Device("accelerator", (accelerator.name,), (), f"{accelerator.kind} {ids}".strip())
        yield inventory.locate(device, accelerator.address, accelerator.zone)
    zone_devices = {zone.device for zone in machine.zones}
    for dax in machine.dax_devices:
        if dax.name in zone_devices:
            continue  # shown as the zone that it provides
        medium = dax.medium or ("CXL" if dax.cxl else "memory")
        what = " ".join(filter(None, (medium, format_bytes(dax.size) if dax.size else "", "DAX")))
        zone = dax.zone if dax.numa_node is None else dax.numa_node
        yield inventory.locate(Device("memory", (dax.name,), (), what), None, zone)


def _driverless(machine: Machine, inventory: PciLookup, shown: set[str]) -> Iterator[LocatedDevice]:
    """Yield NVMe drives without a block device, such as drives that are assigned to a virtual machine."""
    unclaimed = (f for f in machine.pci if f.pci_class == _NVME and f.address not in shown)
    for number, function in enumerate(f for f in unclaimed if not inventory.is_virtual(f.address)):
        driver = f"driver {function.driver}" if function.driver else "no driver"
        what = f"NVMe {_COMMON_WORDS.sub('', _name_or_ids(function))}".strip()
        device = Device("storage", (f"NVMe{number}",), (), what, notes=(driver,))
        yield inventory.locate(device, function.address, function.zone)


def _name_or_ids(function: PciFunction) -> str:
    return function.name or _ids(function.vendor, function.device)


def _ids(vendor: str | None, device: str | None) -> str:
    """Format the PCI ids of a device without a name."""
    return f"{vendor}:{device}" if vendor and device else ""
