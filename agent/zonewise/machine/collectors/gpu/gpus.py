"""GPUs: found among the PCI functions without any driver, and completed with facts from the drivers.

A GPU is a display controller or a processing accelerator from a GPU vendor. Other display controllers (of a server's
management controller, of a virtual machine) only drive a screen.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.gpu.drm import KFD
from zonewise.machine.collectors.pci.classes import DISPLAY, PROCESSING_ACCELERATOR
from zonewise.machine.collectors.pci.functions import DEVICES
from zonewise.machine.model.gpu import Gpu
from zonewise.machine.nvml.child_process import CHILD
from zonewise.machine.nvml.facts_json import CAPTURED
from zonewise.machine.reader import first_few
from zonewise.machine.sysfs import is_pci_address, pci_order

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.model.zone import Zone
    from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu
    from zonewise.machine.reader import Reader

_PROC = "proc/driver/nvidia"

_VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
"""GPU vendors by PCI vendor id. Vendors whose display controllers do not compute are left out: ASPEED, Matrox, QEMU,
Red Hat, Cirrus Logic, VMware, Microsoft, Huawei's and others' management controllers."""

_SERVER_DISPLAYS = frozenset({("1002", "515e"), ("1002", "5969"), ("1002", "4752")})
"""Display controllers that ATI sold for use with management controllers: ES1000, Rage XL. They do not compute."""

_DRIVERS = {
    "nvidia": "nvidia",
    "nouveau": "nvidia",
    "amdgpu": "amd",
    "i915": "intel",
    "xe": "intel",
}
"""Drivers that serve only GPUs, with their vendor: they identify a GPU even if its class or vendor was lost."""

_MODULES = {"nvidia": ("nvidia",), "amd": ("amdgpu",), "intel": ("i915", "xe")}
_VGA = "0300"
_SHOWN = 3  # number of addresses that a problem of many GPUs names


def find_gpus(read: Reader, machine: Machine, query_nvml: Callable[[], NvmlFacts]) -> Machine:
    """Return the machine with its GPUs. `query_nvml` runs only if NVML's driver drives a GPU.

    If only NVML reports the zone of a GPU, the GPU's PCI function gets that zone as well.
    """
    listed = frozenset(name for name in read.names(f"{_PROC}/gpus") if is_pci_address(name))
    gpus = _gpu_functions(read, machine.pci, listed)
    _report_driverless(read, machine, gpus)
    vendors = {gpu.vendor for gpu in gpus}
    # modules that describe the GPUs of a vendor are loaded only if the machine has such GPUs
    if "amd" in vendors or (not machine.pci and read.has(KFD)):
        from zonewise.machine.collectors.gpu.amd import enrich_amd

        gpus = enrich_amd(read, gpus, pci_is_known=bool(machine.pci))
    if "intel" in vendors:
        from zonewise.machine.collectors.gpu.intel import enrich_intel

        gpus = enrich_intel(read, gpus)
    nvml_gpus: dict[str, NvmlGpu] = {}
    if "nvidia" in vendors or read.names(posixpath.dirname(CAPTURED)):
        from zonewise.machine.collectors.gpu.nvidia import enrich_nvidia

        gpus, nvml_gpus = enrich_nvidia(read, gpus, listed, query_nvml)
    if not gpus:
        raise NoData("no GPU")
    gpus = tuple(_placed(read, gpu, nvml_gpus.get(gpu.address or ""), machine.zones) for gpu in gpus)
    return machine._replace(gpus=tuple(sorted(gpus, key=_order)), pci=_refined(read, machine.pci, gpus))


def _order(gpu: Gpu) -> tuple[bool, tuple[int, str], str]:
    return gpu.address is None, pci_order(gpu.address or "0:"), gpu.uuid or ""


def _gpu_functions(read: Reader, functions: tuple[PciFunction, ...], listed: frozenset[str]) -> tuple[Gpu, ...]:
    vendors = {
        each.address: vendor for each in functions if (vendor := _vendor(each, each.address in listed)) is not None
    }
    # a virtual function belongs to a GPU that is already listed; a virtual machine with one sees no other function
    own = [each for each in functions if each.address in vendors and each.physical_function not in vendors]
    return tuple(_gpu(read, each, vendors[each.address], each.address in listed) for each in own)


def _vendor(function: PciFunction, is_listed: bool) -> str | None:
    """Return the GPU vendor of a function; None if the function is not a GPU."""
    by_driver = _DRIVERS.get(function.driver or "") or ("nvidia" if is_listed else None)
    vendor = by_driver if function.vendor is None else _VENDORS.get(function.vendor)
    if vendor is None or (function.vendor, function.device) in _SERVER_DISPLAYS:
        return None
    if function.pci_class is None or by_driver == vendor:
        return by_driver
    base = function.pci_class[:2]
    # Intel devices with the class of processing accelerators are NPUs
    return vendor if base == DISPLAY or (base == PROCESSING_ACCELERATOR and vendor != "intel") else None


def _gpu(read: Reader, function: PciFunction, vendor: str, is_listed: bool) -> Gpu:
    address = function.address
    fact, path = f"gpus.{address}", f"{DEVICES}/{address}"
    rule = "a display controller (PCI class 03) or accelerator (12) of a GPU vendor, or a device with a GPU driver"
    read.source(fact, f"{path}/class", function.pci_class, rule)
    if function.zone is not None:
        read.source(f"{fact}.zone", path, function.zone, f"the zone of its PCI function, from {function.zone_source}")
    if function.memory_zone is not None:
        read.source(f"{fact}.memory_zone", path, function.memory_zone, "the zone that belongs to its PCI function")
    driver = function.driver
    if driver is None and is_listed:
        driver = "nvidia"
        read.source(f"{fact}.driver", f"{_PROC}/gpus/{address}", driver, "its driver lists it")
    return Gpu(
        address, None, vendor, None, None, function.zone, driver, None, None, None, memory_zone=function.memory_zone
    )


def _report_driverless(read: Reader, machine: Machine, gpus: tuple[Gpu, ...]) -> None:
    classes = {function.address: function.pci_class for function in machine.pci}
    for vendor, modules in _MODULES.items():
        own = [gpu.address or "" for gpu in gpus if gpu.vendor == vendor and gpu.driver is None]
        # servers usually have no driver for the graphics in the processor
        if vendor != "nvidia":
            own = [address for address in own if classes.get(address) != _VGA]
        if not own:
            continue
        loaded = [module for module in modules if module in (machine.kernel.modules or ())]
        remedy = f"{loaded[0]} is loaded, but not bound to it" if loaded else f"load {' or '.join(modules)}"
        shown = first_few(own, _SHOWN)
        what = f"{len(own)} {vendor} GPU{'s' if len(own) > 1 else ''} ({shown}) without a driver: {remedy}"
        read.problem(DEVICES, what, "the PCI data")


def _placed(read: Reader, gpu: Gpu, nvml_gpu: NvmlGpu | None, zones: tuple[Zone, ...]) -> Gpu:
    """Return a GPU with the zone that NVML calls nearest, if that is one zone and no other source has one.

    The same applies to the zone that consists of the GPU's own memory.
    """
    if nvml_gpu is None:
        return gpu
    fact, path = f"gpus.{gpu.address}", f"{DEVICES}/{gpu.address}"
    near = [zone.id for zone in zones if zone.cpus and zone.id in (nvml_gpu.memory_affinity or ())]
    if gpu.zone is None and len(near) == 1:
        rule = "NVML nvmlDeviceGetMemoryAffinity, since the kernel knows no zone for it"
        read.source(f"{fact}.zone", path, near[0], rule)
        gpu = gpu._replace(zone=near[0])
    own = [zone.id for zone in zones if not zone.cpus and zone.id == nvml_gpu.numa_node]
    if gpu.memory_zone is None and own:
        read.source(f"{fact}.memory_zone", path, own[0], "NVML nvmlDeviceGetNumaNodeId")
        gpu = gpu._replace(memory_zone=own[0])
    return gpu


def _refined(read: Reader, functions: tuple[PciFunction, ...], gpus: tuple[Gpu, ...]) -> tuple[PciFunction, ...]:
    """Return the functions with the zones that only NVML reported."""
    zones = {gpu.address: gpu.zone for gpu in gpus if gpu.zone is not None}
    refined: list[PciFunction] = []
    for function in functions:
        zone = zones.get(function.address)
        if function.zone is None and zone is not None:
            read.source(f"pci.{function.address}.zone", f"{DEVICES}/{function.address}", zone, "NVML's memory affinity")
            function = function._replace(zone=zone, zone_source="nvml")
        refined.append(function)
    return tuple(refined)


def _collect(read: Reader, machine: Machine) -> Machine:
    machine = find_gpus(read, machine, CHILD.query)
    if read.files.live and any(gpu.state == "lost" for gpu in machine.gpus):
        CHILD.repeat_later()  # a reset brings the GPU back, and may change no file
    return machine


def _volatile(peek: Peek) -> Hashable:
    """Return what changes when a driver is loaded or replaced, GPUs are repartitioned, or another query of NVML may
    yield more.

    Health counters are not included: they are as old as the last scan that ran for another reason.
    """
    return (
        peek.content(f"{_PROC}/version"),
        peek.names(f"{_PROC}/gpus"),
        _mig_instances(peek),
        peek.content(CAPTURED),
        peek.content(f"{KFD}/generation_id"),
        peek.names("sys/class/drm"),
        CHILD.attempt,
    )


def _mig_instances(peek: Peek) -> Hashable:
    """Return the names of the MIG instances: the driver has a directory with access permissions for each."""
    top = f"{_PROC}/capabilities"
    gpus = [f"{top}/{gpu}/mig" for gpu in peek.names(top) if gpu.startswith("gpu")]
    return tuple((gpu, tuple((each, peek.names(f"{gpu}/{each}")) for each in peek.names(gpu))) for gpu in gpus)


COLLECTOR = Collector(
    name="gpus",
    provides=("gpus", "pci"),
    needs=("pci", "zones", "kernel"),
    collect=_collect,
    volatile=_volatile,
)
