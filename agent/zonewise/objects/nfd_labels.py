"""The labels that Node Feature Discovery writes by default, derived from its raw features.

If NFD's code and documentation differ, names and values are those of the code (source/*/*.go). Examples are
`memory-swap` instead of `memory-swap.enabled`, `rdma.available` without its own prefix, `cpu-hardware_multithreading`
also if false, and `cpu-power.sst_bf.enabled` for the feature cpu.sst. A node selector that works with NFD works with
these labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.nfd.worker_config import CUSTOM, DEFAULT_WORKER_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zonewise.nfd.worker_config import DeviceLabels, WorkerConfig
    from zonewise.objects.feature_values import Attributes
    from zonewise.objects.features import Features

PREFIX = "feature.node.kubernetes.io"

_NO_SECURITY_LABEL = frozenset({"sev.asids", "sev.encrypted_state_ids", "sgx.epc", "tdx.total_keys"})
"""Quantities, which NFD publishes only as extended resources (source/cpu/cpu.go, skipLabel)."""

_OS_FIELDS = ("ID", "VERSION_ID", "VERSION_ID.major", "VERSION_ID.minor")

_MELLANOX = "15b3"


def nfd_labels(features: Features, worker: WorkerConfig = DEFAULT_WORKER_CONFIG) -> dict[str, str]:
    """Return NFD's labels by name, for the sources that the worker's configuration enables."""
    labels: dict[str, str] = {}
    for source, part in _SOURCES.items():
        if source in worker.label_sources:
            labels.update((f"{PREFIX}/{name}", value) for name, value in part(features, worker))
    return labels


def _all(prefix: str, attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((f"{prefix}.{name}", value) for name, value in attributes.items())


def _some(prefix: str, attributes: Mapping[str, str], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return _all(prefix, {name: attributes[name] for name in names if name in attributes})


def _attributes(features: Features, name: str) -> Attributes:
    return features.attributes.get(name, {})


def _instances(features: Features, name: str) -> tuple[Attributes, ...]:
    return features.instances.get(name, ())


def _cpu(features: Features, worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    flags = set(features.flags.get("cpu.cpuid", ()))
    # a white list overrides the black list (source/cpu/cpu.go, keyFilter)
    labelled = flags & worker.cpuid_whitelist if worker.cpuid_whitelist else flags - worker.cpuid_blacklist
    for flag in sorted(labelled):
        yield f"cpu-cpuid.{flag}", "true"
    for feature in ("cpuid", "model", "cstate", "pstate", "coprocessor"):
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


def _kernel(features: Features, worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    yield from _all("kernel-version", _attributes(features, "kernel.version"))
    for name, value in _some("kernel-config", _attributes(features, "kernel.config"), worker.kernel_options):
        yield name, "true" if value in ("y", "m") else value
    if _attributes(features, "kernel.selinux").get("enabled") == "true":
        yield "kernel-selinux.enabled", "true"


def _memory(features: Features, _worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    if _attributes(features, "memory.numa").get("is_numa") == "true":
        yield "memory-numa", "true"
    if _attributes(features, "memory.swap").get("enabled") == "true":
        yield "memory-swap", "true"
    types = [device.get("devtype") for device in _instances(features, "memory.nv")]
    if types:
        yield "memory-nv.present", "true"
    if "nd_dax" in types:
        yield "memory-nv.dax", "true"


def _network(features: Features, _worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    devices = _instances(features, "network.device")
    for name, attribute in (("capable", "sriov_totalvfs"), ("configured", "sriov_numvfs")):
        if any(int(device.get(attribute, "0")) > 0 for device in devices):
            yield f"network-sriov.{name}", "true"


def _pci(features: Features, worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    for device, name in _labelled_devices(features, "pci.device", worker.pci):
        yield f"pci-{name}.present", "true"
        if "sriov_totalvfs" in device:
            yield f"pci-{name}.sriov.capable", "true"


def _usb(features: Features, worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    for _, name in _labelled_devices(features, "usb.device", worker.usb):
        yield f"usb-{name}.present", "true"


def _labelled_devices(features: Features, feature: str, labels: DeviceLabels) -> Iterator[tuple[Attributes, str]]:
    """Yield the devices of the classes that have labels, each with its part of the label's name."""
    for device in _instances(features, feature):
        values = [device.get(field, "") for field in labels.fields]
        if device.get("class", "").startswith(labels.classes) and all(values):
            yield device, "_".join(values)


def _storage(features: Features, _worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    if any(drive.get("rotational") == "0" for drive in _instances(features, "storage.block")):
        yield "storage-nonrotationaldisk", "true"


def _system(features: Features, _worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    return _some("system-os_release", _attributes(features, "system.osrelease"), _OS_FIELDS)


def rdma_labels(features: Features) -> Iterator[tuple[str, str]]:
    """Yield the labels of the two rules that are built into NFD, without a prefix."""
    # The two rules that are built into NFD (source/custom/static_features.go). Its first matches one vendor only; RDMA
    # devices show the others.
    capable = any(device.get("software") == "false" for device in _instances(features, "rdma.device"))
    if capable or any(device.get("vendor") == _MELLANOX for device in _instances(features, "pci.device")):
        yield "rdma.capable", "true"
    if {"ib_uverbs", "rdma_ucm"} <= set(features.flags.get("kernel.loadedmodule", ())):
        yield "rdma.available", "true"


def _rdma(features: Features, _worker: WorkerConfig) -> Iterator[tuple[str, str]]:
    return rdma_labels(features)


_SOURCES: dict[str, Callable[[Features, WorkerConfig], Iterator[tuple[str, str]]]] = {
    "cpu": _cpu,
    "kernel": _kernel,
    "memory": _memory,
    "network": _network,
    "pci": _pci,
    "usb": _usb,
    "storage": _storage,
    "system": _system,
    CUSTOM: _rdma,
}
"""Label functions by label source."""
