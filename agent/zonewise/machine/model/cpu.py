"""CPUs and the objects that contain or serve them: packages, dies, clusters, cores, caches.

A CPU is one hardware thread, as the kernel numbers them. Ids are the kernel's own and need not be unique (POWER, s390
and ia64 print -1 or 0 for many packages); the CPU set of an object identifies it.
"""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet


class Cpus(NamedTuple):
    """The CPUs by state; None if the kernel has no file for it."""

    online: CpuSet
    offline: CpuSet
    """CPUs that are present but switched off; ids that do not exist are left out."""
    possible: CpuSet | None = None
    isolated: CpuSet | None = None
    """CPUs excluded from the kernel's load balancing (isolcpus=)."""
    nohz_full: CpuSet | None = None
    """CPUs without a scheduling tick while a single task runs (nohz_full=)."""
    allowed: CpuSet | None = None
    """CPUs that the cgroup of the reading process permits; the machine itself is never restricted to them."""

    def known(self) -> CpuSet:
        """Return all CPUs that exist or could be added."""
        return self.online | self.offline | (self.possible or self.online)


class Variant(NamedTuple):
    """CPUs with the same lines in /proc/cpuinfo: all CPUs, or on an ARM hybrid those of one core design."""

    cpus: CpuSet
    name: str | None


class CpuidLeaf(NamedTuple):
    """The result of the x86 instruction CPUID for a leaf and a subleaf."""

    leaf: int
    subleaf: int
    eax: int
    ebx: int
    ecx: int
    edx: int


class Model(NamedTuple):
    """The processor model from /proc/cpuinfo; None for fields that the architecture does not print.

    If there are several designs, it is the model of the first CPU. On ARM `family` is the architecture version, `model`
    the implementer's part number, and `stepping` the variant and revision as "r1p0".
    """

    vendor: str | None = None
    name: str | None = None
    family: str | None = None
    model: str | None = None
    stepping: str | None = None
    flags: tuple[str, ...] = ()
    """Instruction set features, in the kernel's order."""
    isa: str | None = None
    """The instruction set in the notation of RISC-V and LoongArch: "rv64imafdc_zba_zbb"."""
    variants: tuple[Variant, ...] = ()
    """The core designs in /proc/cpuinfo, ascending by first CPU."""
    leaves: tuple[CpuidLeaf, ...] = ()
    """Leaves of CPUID with features that /proc/cpuinfo does not print; none if the device /dev/cpu/N/cpuid is absent
    or may not be read."""


class SharedCache(NamedTuple):
    """A cache that s390 firmware lists without the CPUs that share it."""

    level: int
    type: str
    """"Data", "Instruction" or "Unified"."""
    size: int | None
    """Size in bytes."""


class Mainframe(NamedTuple):
    """Facts that only s390 machines have; the counts cover the whole machine, not this partition."""

    machine_type: str | None = None
    """IBM's machine type number: "2964"."""
    dispatching: str | None = None
    """How the hypervisor spreads virtual CPUs: "horizontal" or "vertical"."""
    drawers: int | None = None
    """0 on a machine without drawers; `books_per_drawer` is then the number of its books."""
    books_per_drawer: int | None = None
    sockets_per_book: int | None = None
    cores_per_socket: int | None = None
    shared_caches: tuple[SharedCache, ...] = ()


class Package(NamedTuple):
    """A processor package (socket)."""

    id: int | None
    cpus: CpuSet
    model: str | None = None
    """Marketing name of the processor."""


class Die(NamedTuple):
    """A die as the kernel reports it; the only die of a package equals the package."""

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
    kind: str = "cluster"
    """"cluster" as in the kernel, or "module": AMD's compute unit of two cores with one front end, FPU and L2."""


class Group(NamedTuple):
    """A book or drawer of an s390 machine: sockets that share a further level of cache."""

    kind: str
    """"book" or "drawer"."""
    id: int | None
    cpus: CpuSet


class Core(NamedTuple):
    """A core, with its hardware threads."""

    id: int | None
    """Unique only within its package, if at all."""
    package: int | None
    """The id of its package."""
    zone: int | None
    """The id of the NUMA node that contains its CPUs."""
    cpus: CpuSet
    kind: str | None = None
    """"performance" or "efficiency" on a hybrid machine, else None."""


class CoreKind(NamedTuple):
    """The CPUs of one kind; a machine with one kind of core has one entry."""

    kind: str | None
    """"performance" or "efficiency"; None if all cores are alike."""
    cpus: CpuSet
    model: str | None = None
    """The core's name if it differs by kind ("Cortex-A510")."""
    capacity: int | None = None
    """cpu_capacity: compute power in 1024ths of the fastest core's; every one of them has it, favoured ones more."""
    max_mhz: float | None = None
    """The frequency that the fastest of them reaches."""
    common_max_mhz: float | None = None
    """The frequency that every one of them reaches; a few favoured cores may turbo beyond it."""
    min_mhz: float | None = None
    base_mhz: float | None = None


class Cache(NamedTuple):
    """One cache instance."""

    level: int
    type: str
    """"Data", "Instruction" or "Unified"."""
    size: int | None
    """Size in bytes."""
    cpus: CpuSet
    """The CPUs that share it."""
    id: int | None = None
