"""The labels of AMD's node labeller, derived from the data of amdgpu and its compute driver.

Names and values are those of its code (ROCm/k8s-device-plugin, cmd/k8s-node-labeller). A property that all GPUs share
becomes one label with its value. A property that differs gets a label for each value, with a count. Each partition of a
GPU counts as a GPU, as in the device plugin. Two kinds of labels are not written: firmware versions and
driver-src-version, by which no job selects nodes, and the copies of all labels under beta.amd.com.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.machine.model.gpu import Gpu
    from zonewise.machine.model.machine import Machine

PREFIX = "amd.com"

_GIB = 1 << 30
_DRIVER = "amdgpu"
_DROPPED = str.maketrans({" ": "_", "(": None, ")": None})

_FAMILIES = {
    "gfx90": "AI", "gfx902": "RV", "gfx909": "RV", "gfx90c": "RV", "gfx94": "AI", "gfx950": "AI", "gfx101": "NV",
    "gfx103": "NV", "gfx1033": "VGH", "gfx1035": "YC", "gfx1036": "GC_10_3_6", "gfx1037": "GC_10_3_7",
    "gfx110": "GC_11_0_0", "gfx1103": "GC_11_0_1", "gfx115": "GC_11_5_0",
}  # fmt: skip
"""The driver's family by the longest matching prefix of the instruction set (amdgpu_discovery.c of the kernel)."""


class _GpuPartition(NamedTuple):
    """A GPU, or a partition of one."""

    gpu: Gpu
    memory: int | None
    compute_units: int | None
    simds: int | None


def amd_labels(machine: Machine) -> dict[str, str]:
    """Return the labels by name; none if the driver runs no GPU."""
    gpus = [gpu for gpu in machine.gpus if gpu.vendor == "amd" and gpu.driver == _DRIVER]
    parts = [part for gpu in gpus for part in _parts(gpu)]
    devices = {function.address: function.device for function in machine.pci}
    kinds = {
        "family": (_family(part.gpu.compute_capability) for part in parts),
        "device-id": (devices.get(part.gpu.address or "") for part in parts),
        "product-name": (_product(part.gpu.model) for part in parts),
        "vram": (None if part.memory is None else f"{round(part.memory / _GIB)}G" for part in parts),
        "simd-count": (part.simds for part in parts),
        "cu-count": (part.compute_units for part in parts),
        "compute-memory-partition": (part.gpu.partition for part in parts),
    }
    labels = {name: value for kind, values in kinds.items() for name, value in _count_labels(kind, values)}
    versions = sorted({gpu.driver_version for gpu in gpus if gpu.driver_version is not None})
    return {**labels, f"{PREFIX}/gpu.driver-version": versions[0]} if versions else labels


def _parts(gpu: Gpu) -> list[_GpuPartition]:
    if not gpu.partitions:
        return [_GpuPartition(gpu, gpu.memory, gpu.compute_units, gpu.simds)]
    return [_GpuPartition(gpu, part.memory, part.compute_units, part.simds) for part in gpu.partitions]


def _count_labels(kind: str, values: Iterable[object]) -> Iterator[tuple[str, str]]:
    counts = Counter(str(value) for value in values if value is not None)
    name = f"{PREFIX}/gpu.{kind}"
    if len(counts) == 1:
        yield name, next(iter(counts))
    else:
        yield from ((f"{name}.{value}", str(count)) for value, count in counts.items())


def _family(target: str | None) -> str | None:
    fitting = [prefix for prefix in _FAMILIES if target and target.startswith(prefix)]
    return _FAMILIES[max(fitting, key=len)] if fitting else None


def _product(model: str | None) -> str | None:
    return None if model is None else model.translate(_DROPPED) or None
