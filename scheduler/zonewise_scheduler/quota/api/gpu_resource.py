"""Recognizes GPU resources by their names."""

from __future__ import annotations

import re

_WORDS = frozenset({"gpu", "vgpu", "mig", "dcu", "dcunum", "npu", "gaudi"})
_SHARES = frozenset({"memory", "mem", "cores", "core", "percentage", "index"})
"""Words in names of resources that count parts of a GPU."""
_OF_INTEL = frozenset({"gpu.intel.com/i915", "gpu.intel.com/xe"})


def is_gpu(resource: str) -> bool:
    """Return whether a resource counts GPUs or GPU slices: nvidia.com/gpu, nvidia.com/mig-1g.10gb, hygon.com/dcu."""
    _, domain_end, name = resource.rpartition("/")
    words = set(re.split(r"[^a-z0-9]", name))
    return resource in _OF_INTEL or (bool(domain_end) and bool(words & _WORDS) and not words & _SHARES)
