"""NUMA nodes, which we call zones, and how well each CPU reaches each memory."""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet


class Access(NamedTuple):
    """How well the initiators of one class reach a zone's memory.

    ACPI HMAT, through Documentation/admin-guide/mm/numaperf.rst of the kernel.
    """

    access_class: int
    """0: the best initiators of any kind; 1: the best CPUs."""
    initiators: tuple[int, ...]
    """Ids of the zones of the initiators."""
    read_bandwidth: int | None = None
    """MB/s, as is write_bandwidth. None also if the firmware has 0, which the kernel prints for "unknown"."""
    write_bandwidth: int | None = None
    read_latency: int | None = None
    """Latency in ns; so is write_latency."""
    write_latency: int | None = None


class MemorySideCache(NamedTuple):
    """A cache in front of a zone's memory, such as HBM in cache mode."""

    level: int
    size: int | None
    """Size in bytes."""
    line_size: int | None
    """Line size in bytes."""


class Zone(NamedTuple):
    """A NUMA node."""

    id: int
    cpus: CpuSet
    local_cpus: CpuSet
    """Its own CPUs, or the nearest CPUs for a zone without any; empty if no source names any."""
    memory: int | None
    """Bytes of RAM in the zone that the kernel manages."""
    hugepages: dict[str, int]
    """Number of pages reserved in the pool of each size ("2Mi", "1Gi")."""
    distances: dict[str, int]
    """ACPI SLIT distance to each zone by its id; 10 is local."""
    kind: str
    """"cpu", "memory" (no CPUs: HBM, CXL, persistent memory) or "device" (a GPU's own memory)."""
    initiators: tuple[int, ...] | None = None
    """The zones with the CPUs that reach this memory best; None if the firmware does not list them."""
    accesses: tuple[Access, ...] = ()
    side_caches: tuple[MemorySideCache, ...] = ()
    tier: int | None = None
    """The kernel's memory tier; a lower number is faster."""
    medium: str | None = None
    """"DRAM", "HBM", "NVM", "CXL", "SPM" (set aside by the firmware, of unknown speed) or "GPU"; None if unknown."""
    device: str | None = None
    """PCI address of the GPU that the memory belongs to, or the name of the DAX device that forms the zone."""
