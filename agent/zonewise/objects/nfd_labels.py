"""The labels that Node Feature Discovery writes by default, from its raw features.

Names and values are those of its code where the documentation differs (source/*/*.go). Examples are `memory-swap`
instead of `memory-swap.enabled`, `rdma.available` without a prefix of its own, `cpu-hardware_multithreading` also where
false, and `cpu-power.sst_bf.enabled` for the feature cpu.sst. A node selector that works with NFD works with these
labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.objects.feature_values import Attributes
    from zonewise.objects.features import Features

PREFIX = "feature.node.kubernetes.io"

_NO_CPUID_LABEL = """
    AVX10 BMI1 BMI2 CLMUL CMOV CX16 ERMS F16C HTT LZCNT MMX MMXEXT NX POPCNT RDRAND RDSEED RDTSCP SGX SGXLC SSE SSE2
    SSE3 SSE4 SSE42 SSSE3 TDX_GUEST
"""
"""`attributeBlacklist` of the worker's default."""

_NO_SECURITY_LABEL = frozenset({"sev.asids", "sev.encrypted_state_ids", "sgx.epc", "tdx.total_keys"})
"""Quantities, which NFD publishes as extended resources only (source/cpu/cpu.go, skipLabel)."""

_CONFIG_OPTIONS = ("NO_HZ", "NO_HZ_IDLE", "NO_HZ_FULL", "PREEMPT")
_OS_FIELDS = ("ID", "VERSION_ID", "VERSION_ID.major", "VERSION_ID.minor")

_PCI_CLASSES = ("03", "0b40", "12")
"""Display controllers, co-processors, processing accelerators: `deviceClassWhitelist` of the worker's default."""
_USB_CLASSES = ("0e", "ef", "fe", "ff")
"""Video, miscellaneous, and classes defined by a vendor or an application."""

_MELLANOX = "15b3"


def nfd_labels(features: Features) -> dict[str, str]:
    """Return NFD's labels by name."""
    labels: dict[str, str] = {}
    for part in (_cpu, _kernel, _memory, _network, _pci, _usb, _storage, _system, _rdma):
        labels.update((f"{PREFIX}/{name}", value) for name, value in part(features))
    return labels


def _all(prefix: str, attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((f"{prefix}.{name}", value) for name, value in attributes.items())


def _some(prefix: str, attributes: Mapping[str, str], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return _all(prefix, {name: attributes[name] for name in names if name in attributes})


def _attributes(features: Features, name: str) -> Attributes:
    return features.attributes.get(name, {})


def _instances(features: Features, name: str) -> tuple[Attributes, ...]:
    return features.instances.get(name, ())


def _cpu(features: Features) -> Iterator[tuple[str, str]]:
    for flag in sorted(set(features.flags.get("cpu.cpuid", ())).difference(_NO_CPUID_LABEL.split())):
        yield f"cpu-cpuid.{flag}", "true"
    for feature in ("model", "cstate", "pstate", "coprocessor"):
        yield from _all(f"cpu-{feature}", _attributes(features, f"cpu.{feature}"))
    yield from (
        (f"cpu-security.{name}", value)
        for name, value in _attributes(features, "cpu.security").items()
        if name not in _NO_SECURITY_LABEL
    )
    yield from ((f"cpu-power.sst_{name}", value) for name, value in _attributes(features, "cpu.sst").items())
    threads = _attributes(features, "cpu.topology").get("hardware_multithreading")
    if threads is not None:
        yield "cpu-hardware_multithreading", threads


def _kernel(features: Features) -> Iterator[tuple[str, str]]:
    yield from _all("kernel-version", _attributes(features, "kernel.version"))
    for name, value in _some("kernel-config", _attributes(features, "kernel.config"), _CONFIG_OPTIONS):
        yield name, "true" if value in ("y", "m") else value
    if _attributes(features, "kernel.selinux").get("enabled") == "true":
        yield "kernel-selinux.enabled", "true"


def _memory(features: Features) -> Iterator[tuple[str, str]]:
    if _attributes(features, "memory.numa").get("is_numa") == "true":
        yield "memory-numa", "true"
    if _attributes(features, "memory.swap").get("enabled") == "true":
        yield "memory-swap", "true"
    types = [device.get("devtype") for device in _instances(features, "memory.nv")]
    if types:
        yield "memory-nv.present", "true"
    if "nd_dax" in types:
        yield "memory-nv.dax", "true"


def _network(features: Features) -> Iterator[tuple[str, str]]:
    devices = _instances(features, "network.device")
    for name, attribute in (("capable", "sriov_totalvfs"), ("configured", "sriov_numvfs")):
        if any(int(device.get(attribute, "0")) > 0 for device in devices):
            yield f"network-sriov.{name}", "true"


def _pci(features: Features) -> Iterator[tuple[str, str]]:
    for device in _instances(features, "pci.device"):
        pci_class, vendor = device.get("class", ""), device.get("vendor")
        if vendor is not None and pci_class.startswith(_PCI_CLASSES):
            yield f"pci-{pci_class}_{vendor}.present", "true"
            if "sriov_totalvfs" in device:
                yield f"pci-{pci_class}_{vendor}.sriov.capable", "true"


def _usb(features: Features) -> Iterator[tuple[str, str]]:
    for device in _instances(features, "usb.device"):
        fields = [device.get(field, "") for field in ("class", "vendor", "device")]
        if all(fields) and fields[0] in _USB_CLASSES:
            yield f"usb-{'_'.join(fields)}.present", "true"


def _storage(features: Features) -> Iterator[tuple[str, str]]:
    if any(drive.get("rotational") == "0" for drive in _instances(features, "storage.block")):
        yield "storage-nonrotationaldisk", "true"


def _system(features: Features) -> Iterator[tuple[str, str]]:
    return _some("system-os_release", _attributes(features, "system.osrelease"), _OS_FIELDS)


def _rdma(features: Features) -> Iterator[tuple[str, str]]:
    # The two rules that are built into NFD (source/custom/static_features.go). Its first matches one vendor only; RDMA
    # devices tell the others.
    capable = any(device.get("software") == "false" for device in _instances(features, "rdma.device"))
    if capable or any(device.get("vendor") == _MELLANOX for device in _instances(features, "pci.device")):
        yield "rdma.capable", "true"
    if {"ib_uverbs", "rdma_ucm"} <= set(features.flags.get("kernel.loadedmodule", ())):
        yield "rdma.available", "true"
