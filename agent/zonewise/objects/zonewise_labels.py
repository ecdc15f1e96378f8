"""zonewise's own labels, under zonewise.dev/: the shape of the node, for selectors and for people.

A value that is uniform on the node gets a label. A label that contains one number is absent if zones or cores differ.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise.machine.physical_nics import physical_rdma
from zonewise.objects.gfd_resources import sanitized_name
from zonewise.objects.nearest_nics import CLOSEST_FIRST, nearest_nics
from zonewise.objects.uniform_value import uniform_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.machine import Machine

PREFIX = "zonewise.dev"

_MAX_NAME = 63
"""Maximum characters of a label's name after the prefix."""


def zonewise_labels(machine: Machine) -> dict[str, str]:
    """Return the labels by name."""
    pairs = [*_processor(machine), *_zones(machine), *_gpus(machine), *_gpus_by_zone(machine), *_rdma(machine)]
    return {f"{PREFIX}/{name}": str(value) for name, value in pairs if value is not None}


def _processor(machine: Machine) -> Iterator[tuple[str, object]]:
    if machine.packages:
        yield "packages", len(machine.packages)
    if machine.cores:
        yield "threads-per-core", uniform_value(len(core.cpus) for core in machine.cores)
        kinds = {core.kind for core in machine.cores if core.kind is not None}
        yield "hybrid", "true" if len(kinds) > 1 else None
    groups = [cache for cache in machine.caches if cache.level == 3]
    if groups:
        yield "l3-groups", len(groups)
        yield "l3-cpus", uniform_value(len(cache.cpus) for cache in groups)


def _zones(machine: Machine) -> Iterator[tuple[str, object]]:
    zones = [zone for zone in machine.zones if zone.kind == "cpu"]
    if not zones:
        return
    yield "zones", len(zones)
    yield "cpus-per-zone", uniform_value(len(zone.cpus) for zone in zones)
    if machine.cores:
        cores = Counter(core.zone for core in machine.cores)
        yield "cores-per-zone", uniform_value(cores[zone.id] for zone in zones)
    without_cpus = [zone for zone in machine.zones if zone.kind == "memory" and zone.memory]
    if without_cpus:
        yield "memory-zones", len(without_cpus)


def _gpus(machine: Machine) -> Iterator[tuple[str, object]]:
    if not machine.gpus:
        return
    yield "gpus", len(machine.gpus)
    # manifests/components/gpu selects the node's agent by this label: it depends neither on the configuration nor on
    # NVML
    yield "nvidia-gpu", "true" if any(gpu.vendor == "nvidia" for gpu in machine.gpus) else None
    yield "gpu-models", len({gpu.model for gpu in machine.gpus}) if all(gpu.model for gpu in machine.gpus) else None
    counts = Counter(gpu.zone for gpu in machine.gpus)
    zones = [zone.id for zone in machine.zones if zone.kind == "cpu"]
    if None not in counts:
        yield "gpus-per-zone", uniform_value(counts[zone] for zone in zones)
    nearest = nearest_nics(machine)
    if all(gpu.address in nearest for gpu in machine.gpus):
        # the best NIC of the worst GPU: the minimum for a job on any GPU
        yield "gpu-nic", max((near.relation for near in nearest.values()), key=CLOSEST_FIRST.index)


def _gpus_by_zone(machine: Machine) -> Iterator[tuple[str, object]]:
    """Yield the number of GPUs of each model in each zone that has GPUs: gpus-of-zone-0.NVIDIA-H100-80GB-HBM3."""
    names = Counter(
        f"gpus-of-zone-{gpu.zone}.{model}"[:_MAX_NAME].rstrip("-_.")
        for gpu in machine.gpus
        if gpu.zone is not None and (model := sanitized_name(gpu.model or ""))
    )
    yield from sorted(names.items())


def _rdma(machine: Machine) -> Iterator[tuple[str, object]]:
    """Yield facts about the ports of physical devices; software devices and virtual functions add no bandwidth."""
    physical = physical_rdma(machine)
    if not physical:
        return
    active = [(device, port) for device in physical for port in device.ports if port.state == "ACTIVE"]
    yield "rdma-ports", len(active)
    # slower NICs for storage and management are ignored if GPUs have their own NICs
    gpu_nics = {nic for near in nearest_nics(machine).values() for nic in near.nics}
    used = [(device, port) for device, port in active if not gpu_nics or device.address in gpu_nics]
    yield "rdma-link-layer", uniform_value(port.link_layer for _, port in used)
    rates = [port.rate_gbps for _, port in used if port.rate_gbps is not None]
    yield "rdma-gbps", f"{min(rates):g}" if rates and len(rates) == len(used) else None
    counts = Counter(device.zone for device, _ in used)
    if None not in counts:
        yield "rdma-ports-per-zone", uniform_value(counts[zone.id] for zone in machine.zones if zone.kind == "cpu")
