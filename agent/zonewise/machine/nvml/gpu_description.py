"""The meaning of NVML's numbers: describes a GPU with NVML's facts about it. Numbers are those of nvml.h."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from zonewise.machine.model.gpu import Fabric, Gpu, Health, Mig, MigInstance, NvLinkPeer
from zonewise.machine.nvml.backend import NvmlError
from zonewise.machine.nvml.queries import FLAGS, NUMBERS, TEXTS, TUPLES

if TYPE_CHECKING:
    from zonewise.machine.nvml.facts import NvmlFabric, NvmlFacts, NvmlGpu, NvmlMigDevice
    from zonewise.machine.reader import Reader

_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada-lovelace",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
_VIRTUALIZATIONS = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
_ADDRESSINGS = {0: "none", 1: "hmm", 2: "ats"}
_RECOVERIES = {
    0: "none",
    1: "reset gpu",
    2: "reboot node",
    3: "drain p2p",
    4: "drain and reset",
    5: "recover imex domain",
    6: "reset bus",
    7: "reboot system",
}
_THROTTLES = {
    0x04: "sw power cap",
    0x08: "hw slowdown",
    0x20: "sw thermal",
    0x40: "hw thermal",
    0x80: "hw power brake",
}
"""The clocks event reasons that mean throttling; idleness and the user's own settings do not."""
_REMOTES = {0: "gpu", 1: "npu", 2: "switch"}
_NVLINKS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
"""nvmlNvlinkVersion_t -> generation of NVLink: 5 is NVLink 3.1, as an A100 reports, and not NVLink 5."""

_COMPLETED = 3
_FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", _COMPLETED: "completed"}
_FABRIC_SUMMARIES = {1: "healthy", 2: "unhealthy", 3: "limited capacity"}
_FABRIC_FAULTS = {0: "degraded bandwidth", 2: "route recovery", 4: "route unhealthy", 6: "access timeout recovery"}
"""Faults by position of two bits in the health mask: 0 not supported, 1 true, 2 false."""
_CONFIGURATION = 8  # first of four bits: 0 not supported, 1 none, else the kind of incorrect configuration
_CONFIGURATION_FAULTS = {
    2: "system GUID",
    3: "chassis serial number",
    4: "no partition",
    5: "too few NVLinks",
    6: "GPU firmware",
    7: "location",
    8: "GPU state",
}
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_PROFILE = re.compile(r" MIG (\S+)$")
_GIB = 1 << 30

_FIELDS = {
    "name": "model",
    "ecc_enabled": "health.ecc_enabled",
    "ecc_corrected": "health.ecc_corrected",
    "ecc_uncorrected": "health.ecc_uncorrected",
    "ecc_lifetime_corrected": "health.ecc_lifetime_corrected",
    "ecc_lifetime_uncorrected": "health.ecc_lifetime_uncorrected",
    "remapped_rows": "health.remapped_uncorrectable",
    "retired_pages_pending": "health.retired_pages_pending",
    "clocks_event_reasons": "health.throttle_reasons",
    "recovery_action": "health.recovery_action",
    "pcie_replays": "health.pcie_replays",
    "mig_mode": "mig",
    "links": "nvlinks",
}
"""NVML facts whose field in Gpu has another name."""
_CALLS = {
    **TEXTS,
    # numa_node counts only if the kernel has such a zone
    **{fact: call for fact, (call, *_) in NUMBERS.items() if fact != "numa_node"},
    **FLAGS,
    **{fact: call for fact, (call, _) in TUPLES.items()},
    "ecc_enabled": "nvmlDeviceGetEccMode",
    "fabric": "nvmlDeviceGetGpuFabricInfoV",
    "links": "nvmlDeviceGetNvLinkState",
}
_ALSO_IN_PROC = frozenset({"uuid", "name", "minor", "vbios", "firmware"})


def describe_gpu(gpu: Gpu, nvml_gpu: NvmlGpu, facts: NvmlFacts) -> Gpu:
    """Return a GPU with NVML's facts about it; fields for which NVML has no fact are unchanged."""
    return gpu._replace(
        uuid=nvml_gpu.uuid or gpu.uuid,
        model=nvml_gpu.name or gpu.model,
        memory=nvml_gpu.memory or gpu.memory,
        mig=_mig(nvml_gpu),
        fabric=None if nvml_gpu.fabric is None else describe_fabric(nvml_gpu.fabric),
        health=_health(nvml_gpu),
        number=nvml_gpu.place,
        minor=gpu.minor if nvml_gpu.minor is None else nvml_gpu.minor,
        driver_version=facts.driver_version or gpu.driver_version,
        cuda_version=_cuda_version(facts.cuda_version),
        architecture=_ARCHITECTURES.get(nvml_gpu.architecture or 0),
        compute_capability=".".join(map(str, nvml_gpu.compute_capability)) if nvml_gpu.compute_capability else None,
        virtualization=None if nvml_gpu.virtualization is None else _VIRTUALIZATIONS.get(nvml_gpu.virtualization),
        persistence=nvml_gpu.persistence,
        addressing=None if nvml_gpu.addressing is None else _ADDRESSINGS.get(nvml_gpu.addressing),
        nvlinks=_nvlinks(nvml_gpu),
        state="lost" if nvml_gpu.lost else gpu.state,
        module_id=nvml_gpu.module_id,
        vbios=nvml_gpu.vbios or gpu.vbios,
        firmware=nvml_gpu.firmware or gpu.firmware,
        board=nvml_gpu.board,
    )


def record_sources(read: Reader, fact: str, nvml_gpu: NvmlGpu, facts: NvmlFacts, path: str) -> None:
    """Record the query for each fact, and the reason for each unknown one."""
    for name, call in _CALLS.items():
        reason = nvml_gpu.absent.get(name)
        value = None if reason else getattr(nvml_gpu, name)
        rule = f"NVML {call}" + (f": {reason}" if reason else "")
        if value is not None or name not in _ALSO_IN_PROC:
            read.source(f"{fact}.{_FIELDS.get(name, name)}", path, value, rule)
    read.source(f"{fact}.health", path, None, "NVML, at the time of the query")
    read.source(f"{fact}.number", path, nvml_gpu.place, "NVML's index")
    read.source(f"{fact}.cuda_version", path, facts.cuda_version, "NVML nvmlSystemGetCudaDriverVersion")
    if facts.driver_version is not None:
        read.source(f"{fact}.driver_version", path, facts.driver_version, "NVML nvmlSystemGetDriverVersion")


def _cuda_version(number: int | None) -> str | None:
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _health(nvml_gpu: NvmlGpu) -> Health:
    corrected, uncorrected, pending, failed = nvml_gpu.remapped_rows or (None, None, None, None)
    action = nvml_gpu.recovery_action
    reasons = nvml_gpu.clocks_event_reasons
    return Health(
        ecc_enabled=nvml_gpu.ecc_enabled,
        ecc_corrected=nvml_gpu.ecc_corrected,
        ecc_uncorrected=nvml_gpu.ecc_uncorrected,
        remapped_correctable=corrected,
        remapped_uncorrectable=uncorrected,
        remapping_pending=None if pending is None else bool(pending),
        remapping_failed=None if failed is None else bool(failed),
        retired_pages_pending=nvml_gpu.retired_pages_pending,
        throttle_reasons=None if reasons is None else tuple(text for bit, text in _THROTTLES.items() if reasons & bit),
        recovery_action=None if action is None else _RECOVERIES.get(action, f"action {action}"),
        pcie_replays=nvml_gpu.pcie_replays,
        ecc_lifetime_corrected=nvml_gpu.ecc_lifetime_corrected,
        ecc_lifetime_uncorrected=nvml_gpu.ecc_lifetime_uncorrected,
        faults=nvml_gpu.faults,
    )


def describe_fabric(nvml_fabric: NvmlFabric) -> Fabric:
    """Return the meaning of a fabric membership."""
    completed = nvml_fabric.state == _COMPLETED
    cluster = None if nvml_fabric.cluster_uuid == _NO_CLUSTER else nvml_fabric.cluster_uuid
    succeeded = completed and nvml_fabric.status == 0
    status = "success" if succeeded else str(NvmlError(nvml_fabric.status))
    return Fabric(
        state=_FABRIC_STATES.get(nvml_fabric.state, f"state {nvml_fabric.state}"),
        # nvml.h: the status is valid only if the state is completed
        status=status if completed else None,
        cluster_uuid=cluster,
        clique=nvml_fabric.clique if completed else None,
        attached=succeeded and cluster is not None,
        health=_FABRIC_SUMMARIES.get(nvml_fabric.health_summary or 0),
        faults=_fabric_faults(nvml_fabric.health_mask),
    )


def _fabric_faults(mask: int | None) -> tuple[str, ...] | None:
    states = {text: (mask or 0) >> shift & 3 for shift, text in _FABRIC_FAULTS.items()}
    configuration = (mask or 0) >> _CONFIGURATION & 0xF
    if not configuration and not any(states.values()):
        return None
    faults = [text for text, code in states.items() if code == 1]
    if configuration > 1:
        faults.append(f"incorrect configuration: {_CONFIGURATION_FAULTS.get(configuration, configuration)}")
    return tuple(faults)


def _nvlinks(nvml_gpu: NvmlGpu) -> tuple[NvLinkPeer, ...]:
    """Return the active links; equal links are merged into one."""
    alike = Counter(
        (
            link.remote_address or "",
            "unknown" if link.remote_type is None else _REMOTES.get(link.remote_type, "unknown"),
            _NVLINKS.get(link.version or 0, 0),
        )
        for link in nvml_gpu.links
        if link.active
    )
    return tuple(
        NvLinkPeer(address or None, kind, links, version or None)
        for (address, kind, version), links in sorted(alike.items())
    )


def _mig(nvml_gpu: NvmlGpu) -> Mig | None:
    if nvml_gpu.mig_mode is None:
        return None
    current, pending = nvml_gpu.mig_mode
    instances = tuple(_instance(device, nvml_gpu.memory) for device in nvml_gpu.mig_devices)
    return Mig(bool(current), bool(pending), instances)


def _instance(device: NvmlMigDevice, memory: int | None) -> MigInstance:
    return MigInstance(
        uuid=device.uuid,
        profile=_profile(device, memory),
        gpu_instance=device.gpu_instance,
        compute_instance=device.compute_instance,
        memory=device.memory,
        multiprocessors=device.multiprocessors,
        gpu_slices=device.gpu_slices,
        compute_slices=device.compute_slices,
        copy_engines=device.copy_engines,
        decoders=device.decoders,
        encoders=device.encoders,
        jpeg_engines=device.jpeg_engines,
        ofa_engines=device.ofa_engines,
    )


def _profile(device: NvmlMigDevice, memory: int | None) -> str | None:
    """Return a profile such as "1g.10gb": the driver's own name, which may include "+me", else slices and rounded
    memory.

    Memory is rounded as in go-nvlib (pkg/nvlib/device/mig_profile.go): up to eighths of the GPU's whole GiB.
    """
    if named := _PROFILE.search(device.name or ""):
        return named[1]
    if not memory or not device.memory or not device.gpu_slices or not device.compute_slices:
        return None
    eighths = math.ceil(device.memory / memory * 8)
    size = round(eighths / 8 * math.ceil(memory / _GIB))
    part = "" if device.compute_slices == device.gpu_slices else f"{device.compute_slices}c."
    return f"{part}{device.gpu_slices}g.{size}gb"
