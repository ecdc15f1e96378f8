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
    """Ids of zones."""
    read_bandwidth: int | None = None
    """MB/s, as write_bandwidth. None also where the firmware has 0, which the kernel prints for "unknown"."""
    write_bandwidth: int | None = None
    read_latency: int | None = None
    """ns, as write_latency."""
    write_latency: int | None = None


class MemorySideCache(NamedTuple):
    """A cache in front of a zone's memory, such as HBM in cache mode."""

    level: int
    size: int | None
    """Bytes."""
    line_size: int | None
    """Bytes."""


class Zone(NamedTuple):
    """A NUMA node."""

    id: int
    cpus: CpuSet
    local_cpus: CpuSet
    """Its own CPUs, or for a zone without any the nearest ones; empty where no source names any."""
    memory: int | None
    """Bytes of RAM that the kernel manages in it."""
    hugepages: dict[str, int]
    """Count of pages reserved in the pool of each size ("2Mi", "1Gi")."""
    distances: dict[str, int]
    """ACPI SLIT distance to each zone by its id; 10 is local."""
    kind: str
    """"cpu", "memory" (no CPUs: HBM, CXL, persistent memory) or "device" (a GPU's own memory)."""
    initiators: tuple[int, ...] | None = None
    """The zones with the CPUs that reach this memory best; None where the firmware does not list them."""
    accesses: tuple[Access, ...] = ()
    side_caches: tuple[MemorySideCache, ...] = ()
    tier: int | None = None
    """The kernel's memory tier: the lower, the faster."""
    medium: str | None = None
    """"DRAM", "HBM", "NVM", "CXL", "SPM" (set aside by the firmware, of unknown speed) or "GPU"; None where unknown."""
    device: str | None = None
    """PCI address of the GPU that the memory belongs to, or the name of the DAX device that became memory."""
