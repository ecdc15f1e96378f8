"""Kinds of simulated nodes by name: the hardware of a server of that name, according to its vendor's data sheet.

All zones of a kind have equal cores, memory and devices, except for devices that only some zones have.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

NVIDIA_GPU, AMD_GPU = "nvidia.com/gpu", "amd.com/gpu"
RDMA_HCA = "rdma/hca"
"""The resource of InfiniBand ports, named as in the examples of the k8s-rdma-shared-dev-plugin."""
DEFAULT_KIND = "hgx-h100"
"""The kind of nodes that are described only by their number."""

DEFAULT_POLICY = "best-effort"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
"""Values of topologyManagerPolicy."""

_GIB = 1 << 30
_NO_DEVICES: Mapping[str, tuple[int, ...]] = MappingProxyType({})


class NodeKind(NamedTuple):
    """A kind of nodes."""

    name: str
    text: str
    """Description for people."""
    zones: int
    cores: int
    """Cores of each zone."""
    threads: int
    """Threads of each core."""
    memory: int
    """Bytes of each zone."""
    devices: Mapping[str, tuple[int, ...]] = _NO_DEVICES
    """Number of devices in each zone, by resource."""
    zones_per_package: int = 1
    policy: str = DEFAULT_POLICY
    """topologyManagerPolicy."""
    scope: str = "container"
    """topologyManagerScope."""
    gpu_model: str = ""

    @property
    def cpus(self) -> int:
        """Return the number of CPUs, counted as hardware threads like the kernel does."""
        return self.zones * self.cores * self.threads


def _kinds(*kinds: NodeKind) -> Mapping[str, NodeKind]:
    return MappingProxyType({kind.name: kind for kind in kinds})


NODE_KINDS = _kinds(
    NodeKind(
        "hgx-h100", "2 zones of 56 cores and 1 TiB, 8 H100 GPUs", 2, 56, 2, 1024 * _GIB, {NVIDIA_GPU: (4, 4)},
        gpu_model="NVIDIA H100 80GB HBM3",
    ),
    NodeKind(
        "dgx-h100", "2 zones of 56 cores and 1 TiB, 8 H100 GPUs, 8 InfiniBand ports", 2, 56, 2, 1024 * _GIB,
        {NVIDIA_GPU: (4, 4), RDMA_HCA: (4, 4)}, gpu_model="NVIDIA H100 80GB HBM3",
    ),
    NodeKind(
        "dgx-a100", "8 zones of 16 cores and 256 GiB (NPS4), 8 A100 GPUs", 8, 16, 2, 256 * _GIB,
        {NVIDIA_GPU: (0, 2, 0, 2, 0, 2, 0, 2)}, zones_per_package=4, gpu_model="NVIDIA A100-SXM4-80GB",
    ),
    NodeKind(
        "gb200", "2 zones of 72 cores and 480 GiB, 4 B200 GPUs", 2, 72, 1, 480 * _GIB, {NVIDIA_GPU: (2, 2)},
        gpu_model="NVIDIA GB200",
    ),
    NodeKind(
        "mi300x", "2 zones of 96 cores and 1152 GiB, 8 MI300X GPUs", 2, 96, 2, 1152 * _GIB, {AMD_GPU: (4, 4)},
        gpu_model="AMD Instinct MI300X",
    ),
    NodeKind(
        "epyc-9654", "8 zones of 24 cores and 96 GiB (NPS4), no GPUs", 8, 24, 1, 96 * _GIB, zones_per_package=4,
    ),
    NodeKind("xeon-8358", "2 zones of 32 cores and 128 GiB, no GPUs", 2, 32, 1, 128 * _GIB),
)  # fmt: skip
"""Kinds by name. CPUs of HGX and DGX H100: Xeon Platinum 8480C; of DGX A100: EPYC 7742 with four zones per package."""
