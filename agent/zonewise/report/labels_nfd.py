"""The labels that Node Feature Discovery writes by default, as far as the machine tells them.

Names and values are those of its code where the documentation differs (source/*/*.go): a node selector that works with
NFD works with these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.report.cpuid import feature_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.cpu import Model
    from zonewise.machine.model.machine import Machine

PREFIX = "feature.node.kubernetes.io"

_PCI_CLASSES = ("03", "0b40", "12")
"""Display controllers, co-processors, processing accelerators: `deviceClassWhitelist` of the worker's default."""

_VENDORS = {
    "AuthenticAMD": "AMD",
    "AMDisbetter!": "AMD",
    "GenuineIntel": "Intel",
    "HygonGenuine": "Hygon",
    "CentaurHauls": "VIA",
    "VIA VIA VIA": "VIA",
    "GenuineTMx86": "Transmeta",
    "TransmetaCPU": "Transmeta",
    "Geode by NSC": "NSC",
    "Vortex86 SoC": "SiS",
    "SiS SiS SiS": "SiS",
    "RiseRiseRise": "SiS",
    "Genuine  RDC": "RDC",
}
"""/proc/cpuinfo vendor_id (CPUID leaf 0) -> the name of the Go package klauspost/cpuid."""

_ARM_VENDORS = {
    "ARM": "ARM",
    "Ampere": "Ampere",
    "APM": "AMCC",
    "Broadcom": "Broadcom",
    "Cavium": "Cavium",
    "FUJITSU": "Fujitsu",
    "Marvell": "Marvell",
    "NVIDIA": "NVIDIA",
    "Qualcomm": "Qualcomm",
}
_ARM_BY_ID_REGISTERS = 15
"""The architecture in MIDR_EL1 of every 64-bit core: ask the registers that name the features."""

_HYPERVISORS = {
    "Apple": "apple",
    "KVM": "kvm",
    "Microsoft": "msvm",
    "QEMU": "qemu",
    "VMware": "vmware",
    "Xen": "xenhvm",
    "bhyve": "bhyve",
}
_CONFIG_OPTIONS = ("NO_HZ", "NO_HZ_IDLE", "NO_HZ_FULL", "PREEMPT")
_MELLANOX = "15b3"
_X86 = ("x86_64", "i686", "i386")
_VERSION = re.compile(r"(?P<major>\d+)(\.(?P<minor>\d+))?(\.(?P<revision>\d+))?(-.*)?")


def nfd_labels(machine: Machine) -> dict[str, str]:
    """Return NFD's labels by name."""
    found: dict[str, str] = {}
    for part in (_cpu, _kernel, _memory, _network, _pci, _storage, _rdma):
        found.update((f"{PREFIX}/{name}", value) for name, value in part(machine))
    return found


def _cpu(machine: Machine) -> Iterator[tuple[str, str]]:
    for name in feature_names(machine.architecture, machine.model.flags):
        yield f"cpu-cpuid.{name}", "true"
    if machine.cores:
        yield "cpu-hardware_multithreading", _bool(any(len(core.cpus) > 1 for core in machine.cores))
    if machine.architecture in _X86:
        yield from _x86_model(machine)
    elif machine.architecture == "aarch64":
        yield from _arm64_model(machine.model)


def _x86_model(machine: Machine) -> Iterator[tuple[str, str]]:
    model, virtualization = machine.model, machine.virtualization
    if model.vendor is not None:
        yield "cpu-model.vendor_id", _VENDORS.get(model.vendor.strip(), "VendorUnknown")
    if model.family is not None:
        yield "cpu-model.family", model.family
    if model.model is not None:
        yield "cpu-model.id", model.model
    if virtualization.guest is False:
        yield "cpu-model.hypervisor", "none"
    elif virtualization.hypervisor in _HYPERVISORS:
        yield "cpu-model.hypervisor", _HYPERVISORS[virtualization.hypervisor]
    if "sgx" in model.flags:
        yield "cpu-security.sgx.enabled", "true"
    if "tdx_guest" in model.flags:
        yield "cpu-security.tdx.protected", "true"


def _arm64_model(model: Model) -> Iterator[tuple[str, str]]:
    # NFD reads the register MIDR_EL1, whose fields /proc/cpuinfo prints one by one, where the kernel emulates the
    # reading; on a hybrid machine that is the register of the core on which NFD happens to run
    if "cpuid" not in model.flags or len(model.variants) > 1:
        return
    if model.vendor is not None:
        yield "cpu-model.vendor_id", _ARM_VENDORS.get(model.vendor, "VendorUnknown")
    stepping = re.fullmatch(r"r(\d+)p(\d+)", model.stepping or "")
    part = re.fullmatch(r"0x[0-9a-f]{1,3}", model.model or "")
    if stepping and part:
        yield "cpu-model.family", str(int(stepping[1]) << 4 | _ARM_BY_ID_REGISTERS)
        yield "cpu-model.id", str(int(part[0], 16) << 4 | int(stepping[2]))


def _kernel(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.kernel.release is not None:
        full = re.sub(r"[^-A-Za-z0-9_.]", "_", machine.kernel.release).strip("-_.")
        yield "kernel-version.full", full
        if parts := _VERSION.fullmatch(full):
            yield from ((f"kernel-version.{name}", text) for name, text in parts.groupdict().items() if text)
    for option in _CONFIG_OPTIONS:
        value = (machine.kernel.config or {}).get(option)
        if value is not None and value != "n":
            yield f"kernel-config.{option}", "true" if value in ("y", "m") else value


def _memory(machine: Machine) -> Iterator[tuple[str, str]]:
    if len(machine.zones) > 1:
        yield "memory-numa", "true"
    dax = any(device.medium == "NVM" for device in machine.dax_devices)
    if dax or any(device.transport == "pmem" for device in machine.block_devices):
        yield "memory-nv.present", "true"
    if dax:
        yield "memory-nv.dax", "true"


def _network(machine: Machine) -> Iterator[tuple[str, str]]:
    sriov = [nic.sriov for nic in machine.nics if nic.sriov is not None]
    if any(one.total for one in sriov):
        yield "network-sriov.capable", "true"
    if any(one.enabled for one in sriov):
        yield "network-sriov.configured", "true"


def _pci(machine: Machine) -> Iterator[tuple[str, str]]:
    for function in machine.pci:
        if function.pci_class and function.vendor and function.pci_class.startswith(_PCI_CLASSES):
            yield f"pci-{function.pci_class}_{function.vendor}.present", "true"
            if function.sriov is not None:
                yield f"pci-{function.pci_class}_{function.vendor}.sriov.capable", "true"


def _storage(machine: Machine) -> Iterator[tuple[str, str]]:
    if any(device.rotational is False for device in machine.block_devices):
        yield "storage-nonrotationaldisk", "true"


def _rdma(machine: Machine) -> Iterator[tuple[str, str]]:
    # the two rules that are built into NFD (source/custom/static_features.go); the first asks for one vendor only
    if any(function.vendor == _MELLANOX for function in machine.pci):
        yield "rdma.capable", "true"
    if {"ib_uverbs", "rdma_ucm"} <= set(machine.kernel.modules or ()):
        yield "rdma.available", "true"


def _bool(value: bool) -> str:
    return "true" if value else "false"
