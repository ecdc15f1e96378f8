"""The levels of CPU topology in sysfs: which CPUs form one core, cluster, die, package, book or drawer.

CPU masks decide; ids serve only as names. POWER, sparc and s390 print -1 for the id of every package, ia64 prints 0,
and ARM numbers a package for each cluster. Sources: drivers/base/topology.c and
Documentation/admin-guide/cputopology.rst of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.cpu.sharing import CPU, Notations, Shared, own_set, partition, sampled, shown
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader


_UNDEFINED = frozenset({-1, 0xFFFF})
"""The ids of a level that does not exist, whose mask is made up.

-1 is that of an architecture without the level (include/linux/topology.h). For clusters, x86 prints BAD_APICID if it
does not know which CPUs share an L2. The mask is then that of the core (arch/x86/kernel/smpboot.c match_l2c()).
"""


class Level(NamedTuple):
    """A level, with its files."""

    what: str
    id_name: str
    notations: Notations


CORE = Level(
    "core",
    "core_id",
    Notations(("core_cpus", "thread_siblings"), ("core_cpus_list", "thread_siblings_list")),
)
PACKAGE = Level(
    "package",
    "physical_package_id",
    Notations(("package_cpus", "core_siblings"), ("package_cpus_list", "core_siblings_list")),
)
DIE = Level("die", "die_id", Notations(("die_cpus",), ("die_cpus_list",)))
CLUSTER = Level("cluster", "cluster_id", Notations(("cluster_cpus",), ("cluster_cpus_list",)))
BOOK = Level("book", "book_id", Notations(("book_siblings",), ("book_siblings_list",)))
DRAWER = Level("drawer", "drawer_id", Notations(("drawer_siblings",), ("drawer_siblings_list",)))

_EVERYWHERE = (CORE, PACKAGE)
"""The levels whose files exist on every kernel with a topology, so that their absence is a loss."""


class TopologyObject(NamedTuple):
    """An object of a level, with the file that lists its CPUs."""

    id: int | None
    cpus: CpuSet
    path: str


def first_cpu(obj: TopologyObject) -> int:
    """Return the key by which the objects of a level are ordered."""
    return obj.cpus.first()


class Levels:
    """Reads the levels of one machine."""

    def __init__(self, read: Reader, cpus: CpuSet, known: CpuSet) -> None:
        """Prepare to read for the `cpus` that are online, at least one; `known` are all possible CPUs."""
        self.read = read
        self.cpus = cpus
        self.known = known
        self._ids: dict[str, int | None] = {}
        self._nameless: list[Level] = []
        self.names = sampled(read, cpus, _directory)

    def objects(self, level: Level) -> list[TopologyObject]:
        """Return the objects of a level, ascending by first CPU; none if the kernel does not have the level."""
        return [TopologyObject(self.id(shared.cpus, level), shared.cpus, shared.path) for shared in self.sets(level)]

    def defined_objects(self, level: Level) -> list[TopologyObject]:
        """Return the objects of a level, none if the architecture does not define it."""
        ends = (self.cpus.first(), max(self.cpus))
        if level.id_name in self.names and {self.id(CpuSet((cpu,)), level) for cpu in ends} <= _UNDEFINED:
            return []
        return [item for item in self.objects(level) if item.id not in _UNDEFINED or len(item.cpus) > 1]

    def sets(self, level: Level) -> list[Shared]:
        """Return the CPU sets of a level, ascending by first CPU."""
        notations = level.notations.among(self.names)
        if not notations.first():
            if level in _EVERYWHERE:
                self.read.problem(
                    _directory(self.cpus.first()), f"contains no {level.what}", f"{level.what}s are unknown"
                )
            return []
        return partition(
            self.read,
            self.cpus,
            lambda cpu: own_set(self.read, _directory(cpu), notations, cpu, self.known),
            lambda cpu: f"{_directory(cpu)}/{notations.first()}",
            level.what,
        )

    def id(self, cpus: CpuSet, level: Level) -> int | None:
        """Return the id from the file of the first CPU, or of the next CPU that has one."""
        if level.id_name not in self.names:
            if level in _EVERYWHERE and level not in self._nameless:
                self._nameless.append(level)
                self.read.problem(
                    f"{_directory(cpus.first())}/{level.id_name}", "is missing", f"{level.what}s have no id"
                )
            return None
        before = len(self.read.problems)
        for cpu in cpus:
            path = f"{_directory(cpu)}/{level.id_name}"
            if path not in self._ids:
                self._ids[path] = self._read_id(path)
            if self._ids[path] is not None:
                self.read.note_used(before, f"/{path}")
                return self._ids[path]
        self.read.note_used(before, f"the id of {level.what} {shown(cpus)} is unknown")
        return None

    def _read_id(self, path: str) -> int | None:
        before = len(self.read.problems)
        identifier = self.read.integer(path)
        if identifier is None and len(self.read.problems) == before:
            self.read.problem(path, "is missing")
        return identifier


def _directory(cpu: int) -> str:
    return f"{CPU}/cpu{cpu}/topology"
