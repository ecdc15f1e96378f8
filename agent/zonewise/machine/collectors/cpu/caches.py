"""The caches, each listed once, with the CPUs that share it.

Every CPU has a directory for each cache that serves it (drivers/base/cacheinfo.c of the kernel). A cache is read from
the directory of its first CPU. The directories of its other CPUs have the same content as long as these CPUs have the
same list of caches. If the kernel has no such directories, the caches come from sparc's own files or, on POWER, from
the device tree.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.collectors.cpu.device_tree import device_tree_caches
from zonewise.machine.collectors.cpu.sharing import CPU, Notations, Shared, own_set, partition, sampled, shown
from zonewise.machine.model.cpu import Cache
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.cpu import Core, Cpus
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

_INDEX = "index"
_NOTATIONS = Notations(("shared_cpu_map",), ("shared_cpu_list",))
_TYPES = ("Data", "Instruction", "Unified")
_MAX_LEVEL = 8
_MAX_INDEX = 64
_MAX_CPUS_READ = 4
"""Number of CPUs to read for a value that the first CPU lacks: more than one file may be lost, but not many."""

_SPARC = (  # arch/sparc/kernel/sysfs.c
    ("l1_dcache_size", 1, "Data"),
    ("l1_icache_size", 1, "Instruction"),
    ("l2_cache_size", 2, "Unified"),
)

T = TypeVar("T")


class _CacheReading(NamedTuple):
    """A cache and the file that lists the CPUs that share it."""

    cache: Cache
    path: str


def _collect(read: Reader, machine: Machine) -> Machine:
    if not machine.cpus.online:
        raise NoData("no CPUs")
    caches = _SysfsCaches(read, machine.cpus, machine.cores).all() or _sparc(read, machine)
    if not any(reading.cache.level > 1 for reading in caches):
        caches += [_CacheReading(*reading) for reading in device_tree_caches(read, machine.cpus.online)]
    if not caches:
        raise NoData(f"no caches below /{CPU}, nor in a device tree")
    caches.sort(key=lambda reading: (reading.cache.cpus.first(), reading.cache.level, reading.cache.type))
    for number, reading in enumerate(caches if read.sources is not None else ()):
        read.source(
            f"caches.{number}",
            reading.path,
            reading.cache.cpus,
            "level, type and size are in files of the same directory",
        )
    return machine._replace(caches=tuple(reading.cache for reading in caches))


class _SysfsCaches:
    """Reads the caches below the directories of the CPUs."""

    def __init__(self, read: Reader, cpus: Cpus, cores: tuple[Core, ...]) -> None:
        self.read = read
        self.core_of = {cpu: core.cpus for core in cores for cpu in core.cpus}
        self.online = cpus.online
        self.known = cpus.known()
        self.lists = {cpu: self._indexes(cpu) for cpu in cpus.online}
        lacking = CpuSet(cpu for cpu, indexes in self.lists.items() if not indexes)
        if lacking and lacking != cpus.online:
            path = f"{CPU}/cpu{lacking.first()}/cache"
            read.problem(
                path, "is empty or missing", f"only the caches that other CPUs share with CPUs {shown(lacking)}"
            )

    def all(self) -> list[_CacheReading]:
        """Return all caches without duplicates."""
        by_list: dict[tuple[str, ...], list[int]] = {}
        for cpu, indexes in self.lists.items():
            by_list.setdefault(indexes, []).append(cpu)
        readings = [
            reading
            for indexes, cpus in by_list.items()
            for index in indexes
            for reading in self.with_index(index, CpuSet(cpus))
        ]
        return _undisputed(self.read, readings)

    def _indexes(self, cpu: int) -> tuple[str, ...]:
        """Return the names of a CPU's cache directories."""
        path = f"{CPU}/cpu{cpu}/cache"
        names = tuple(name for name in self.read.names(path) if name.startswith(_INDEX))[:_MAX_INDEX]
        if names != tuple(f"{_INDEX}{number}" for number in range(len(names))):
            self.read.problem(path, f"has a gap: {', '.join(names)[:60]}", "the caches that exist")
        return names

    def with_index(self, index: str, cpus: CpuSet) -> list[_CacheReading]:
        """Return the caches that have the given index, for CPUs with the same list of caches."""
        files = sampled(
            self.read, cpus, lambda cpu: _directory(cpu, index)
        )  # on some machines no cache has a size or an id
        for name in ("level", "type"):
            if name not in files:
                path = f"{_directory(cpus.first(), index)}/{name}"
                self.read.problem(path, "is missing", f"no caches with {index} of CPUs {shown(cpus)}")
                return []
        sets = partition(
            self.read,
            cpus,
            # ia64 kernels leave the masks of some caches empty: such a cache belongs to a core with all its threads
            # (hwloc's rule)
            lambda cpu: own_set(
                self.read,
                _directory(cpu, index),
                _NOTATIONS,
                cpu,
                self.known,
                when_empty=self.core_of.get(cpu) or CpuSet((cpu,)),
            ),
            lambda cpu: f"{_directory(cpu, index)}/{_NOTATIONS.first()}",
            "cache",
            within=self.online,
        )
        return [reading for shared in sets if (reading := self._cache(index, cpus, shared, files))]

    def _cache(self, index: str, fellows: CpuSet, shared: Shared, files: frozenset[str]) -> _CacheReading | None:
        """Return a cache. A lost level or type is read from CPUs with the same list of caches, at the same index."""
        sharers = shared.cpus & fellows
        level = self._first_value(chain(sharers, fellows), index, "level", self._level)
        kind = self._first_value(chain(sharers, fellows), index, "type", self._type)
        if level is None or kind is None:
            return None
        size = self._first_value(sharers, index, "size", self.read.size) if "size" in files else None
        number = self._first_value(sharers, index, "id", self.read.integer) if "id" in files else None
        # kernels before 3.18 print an unknown size as 0, newer ones have no such file (drivers/base/cacheinfo.c)
        return _CacheReading(Cache(level, kind, size or None, shared.cpus, number), shared.path)

    def _first_value(self, cpus: Iterable[int], index: str, name: str, parse: Callable[[str], T | None]) -> T | None:
        """Return the value of the first CPU, or of the next CPU that has one."""
        before = len(self.read.problems)
        for cpu in islice(cpus, _MAX_CPUS_READ):
            path = f"{_directory(cpu, index)}/{name}"
            known = len(self.read.problems)
            value = parse(path)
            if value is not None:
                self.read.note_used(before, f"/{path}")
                return value
            if len(self.read.problems) == known:
                self.read.problem(path, "is missing")
        self.read.note_used(before, f"the {name} of the cache is unknown")
        return None

    def _level(self, path: str) -> int | None:
        level = self.read.integer(path)
        if level is None or 1 <= level <= _MAX_LEVEL:
            return level
        self.read.problem(path, f"contains {level}, which is not a level of a cache")
        return None

    def _type(self, path: str) -> str | None:
        kind = self.read.text(path)
        if kind is None or kind in _TYPES:
            return kind
        self.read.problem(path, f"contains {kind[:60]!r}, which is not a type of cache")
        return None


def _undisputed(read: Reader, readings: list[_CacheReading]) -> list[_CacheReading]:
    """Return each cache once; drop caches that overlap another one of the same level and type."""
    distinct: dict[tuple[int, str, int], _CacheReading] = {}
    for reading in readings:
        distinct.setdefault((reading.cache.level, reading.cache.type, reading.cache.cpus.bits), reading)
    owners: dict[tuple[int, str, int], list[_CacheReading]] = {}
    for reading in distinct.values():
        for cpu in reading.cache.cpus:
            owners.setdefault((reading.cache.level, reading.cache.type, cpu), []).append(reading)
    disputed = {id(reading) for rivals in owners.values() if len(rivals) > 1 for reading in rivals}
    for reading in distinct.values():
        if id(reading) in disputed:
            problem = f"lists CPUs {shown(reading.cache.cpus)} as sharing a cache, which contradicts other caches"
            read.problem(reading.path, problem, "no cache of these CPUs")
    return [reading for reading in distinct.values() if id(reading) not in disputed]


def _sparc(read: Reader, machine: Machine) -> list[_CacheReading]:
    """Return the caches of a sparc machine: each CPU has files with the cache sizes, and the threads of a core share
    them.
    """
    names = sampled(read, machine.cpus.online, lambda cpu: f"{CPU}/cpu{cpu}")
    readings: list[_CacheReading] = []
    for name, level, kind in _SPARC:
        for core in machine.cores if name in names else ():
            path = f"{CPU}/cpu{core.cpus.first()}/{name}"
            size = read.size(path, needed=f"a cache of CPUs {shown(core.cpus)}")
            if size is not None:
                readings.append(_CacheReading(Cache(level, kind, size, core.cpus), path))
    return readings


def _directory(cpu: int, index: str) -> str:
    return f"{CPU}/cpu{cpu}/cache/{index}"


def _volatile(_peek: Peek) -> Hashable:
    """Return nothing: the kernel changes caches only when it brings CPUs online or offline."""
    return None


COLLECTOR = Collector(
    name="caches",
    provides=("caches",),
    needs=("cpus", "cores"),
    collect=_collect,
    volatile=_volatile,
)
