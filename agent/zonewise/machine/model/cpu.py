"""CPUs and what holds and serves them: packages, dies, clusters, cores, caches.

A CPU is what the kernel numbers: one hardware thread. Ids are the kernel's own and need not be unique (POWER, s390 and
ia64 print -1 or 0 for many packages); the CPU set of an object is what tells it from the others.
"""

from typing import NamedTuple

from zonewise.topology.cpuset import CpuSet


class Cpus(NamedTuple):
    """Which CPUs there are, by state; None where the kernel does not say."""

    online: CpuSet
    offline: CpuSet
    """Present and switched off; ids that do not exist are left out."""
    possible: CpuSet | None = None
    isolated: CpuSet | None = None
    """Taken out of the kernel's load balancing (isolcpus=)."""
    nohz_full: CpuSet | None = None
    """Without a scheduling tick while one task runs (nohz_full=)."""
    allowed: CpuSet | None = None
    """What the cgroup of the reading process permits; the machine itself is never restricted to it."""


class Model(NamedTuple):
    """The model of processor, from /proc/cpuinfo; None what the architecture does not tell."""

    vendor: str | None = None
    name: str | None = None
    family: str | None = None
    model: str | None = None
    stepping: str | None = None
    flags: tuple[str, ...] = ()
    """Instruction set features, in the kernel's order."""


class Package(NamedTuple):
    """A processor package (socket)."""

    id: int | None
    cpus: CpuSet
    model: str | None = None
    """Its marketing name."""


class Die(NamedTuple):
    """A die of a package that has several, or one that the kernel reports apart."""

    id: int | None
    package: int | None
    """The id of its package."""
    cpus: CpuSet


class Cluster(NamedTuple):
    """Cores that share something below the last-level cache: an L2 (x86 E-cores) or an L3 tag (Kunpeng)."""

    id: int | None
    package: int | None
    """The id of its package."""
    cpus: CpuSet


class Group(NamedTuple):
    """A book or drawer of an s390 machine: sockets that share a further level of cache."""

    kind: str
    """"book" or "drawer"."""
    id: int | None
    cpus: CpuSet


class Core(NamedTuple):
    """A core with its hardware threads."""

    id: int | None
    """Unique only within its package, if at all."""
    package: int | None
    """The id of its package."""
    zone: int | None
    """The id of the NUMA node that holds its CPUs."""
    cpus: CpuSet
    kind: str | None = None
    """"performance" or "efficiency" on a hybrid machine, else None."""


class CoreKind(NamedTuple):
    """CPUs of one kind; a machine with one kind of core has one entry."""

    kind: str | None
    """"performance" or "efficiency"; None where all cores are alike."""
    cpus: CpuSet
    model: str | None = None
    """The core's name where it differs by kind ("Cortex-A510")."""
    capacity: int | None = None
    """cpu_capacity: compute power as 1024ths of the fastest core's."""
    max_mhz: float | None = None
    min_mhz: float | None = None
    base_mhz: float | None = None


class Cache(NamedTuple):
    """One cache instance."""

    level: int
    type: str
    """"Data", "Instruction" or "Unified"."""
    size: int | None
    """Bytes."""
    cpus: CpuSet
    """The CPUs that share it."""
    id: int | None = None
