"""Which CPUs share an object (a package, a core, a cache), as the files of each CPU list them.

The file of every CPU lists all CPUs that share the object. So one file describes the whole set, and only one is read.
If files contradict each other, all are read. A set then counts only if the file of none of its CPUs contradicts it.
Other sets are dropped, as hwloc drops such objects: no vote could identify the damaged files.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.machine.reader import Reader

CPU = "sys/devices/system/cpu"
"""The directory that contains a directory for each CPU."""

_SHOWN = 60


class Notations(NamedTuple):
    """The files of a directory that contain the same CPU set, newest name first.

    Masks come first: every kernel has them, and the oldest have no lists.
    """

    masks: tuple[str, ...]
    lists: tuple[str, ...]

    def among(self, names: frozenset[str]) -> Notations:
        """Return the notations whose files a directory has."""
        return Notations(
            tuple(name for name in self.masks if name in names),
            tuple(name for name in self.lists if name in names),
        )

    def first(self) -> str:
        """Return the name to show in messages; empty if there is none."""
        return next(iter(self.masks + self.lists), "")


class Shared(NamedTuple):
    """CPUs that share an object, with the file that lists them."""

    cpus: CpuSet
    path: str


def own_set(
    read: Reader, directory: str, notations: Notations, cpu: int, known: CpuSet, *, when_empty: CpuSet = EMPTY
) -> Shared | None:
    """Return the CPUs that share an object with a CPU, by that CPU's files; None if no file has a set.

    A set without the CPU itself is damaged, since every CPU shares with itself; only an empty set may stand for the set
    `when_empty`. A set with CPUs that are not `known` is damaged as well.
    """
    before = len(read.problems)
    for name in notations.masks + notations.lists:
        path = f"{directory}/{name}"
        cpus = read.mask(path) if name in notations.masks else read.cpus(path)
        if cpus is None:
            continue
        cpus = cpus or when_empty
        if cpu not in cpus or not cpus <= known:
            wrong = f"without CPU {cpu} itself" if cpu not in cpus else "some of which do not exist"
            read.problem(path, f"contains CPUs {shown(cpus)!r}, {wrong}")
            continue
        read.note_used(before, f"/{path}")
        return Shared(cpus, path)
    return None


def shown(cpus: CpuSet) -> str:
    """Return a CPU set abbreviated to fit one line of a message."""
    text = str(cpus)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def sampled(read: Reader, cpus: CpuSet, directory: Callable[[int], str]) -> frozenset[str]:
    """Return the names in a directory that each CPU has, taken from the first and the last CPU.

    Two CPUs are read, so that the loss of one file is not mistaken for a kernel without such a file.
    """
    return frozenset(name for cpu in {cpus.first(), max(cpus)} for name in read.names(directory(cpu)))


class _Lost(NamedTuple):
    """A CPU without a file that lists the CPUs that share an object with it, and the problems reported for it."""

    cpu: int
    first: int
    end: int


def partition(
    read: Reader,
    cpus: CpuSet,
    own: Callable[[int], Shared | None],
    path_at: Callable[[int], str],
    what: str,
    *,
    within: CpuSet | None = None,
) -> list[Shared]:
    """Return the sets of CPUs that share an object with `cpus`, ascending by first CPU.

    `own` returns the set in a CPU's files, `path_at` the path of one of these files. `what` names the shared object,
    for messages. CPUs outside `within`, by default `cpus`, are left out of the sets.
    """
    within = cpus if within is None else within
    views: dict[int, Shared | None] = {}
    lost: list[_Lost] = []
    sets: list[Shared] = []
    settled = 0
    clash = False
    for cpu in cpus:
        if settled >> cpu & 1:
            continue
        before = len(read.problems)
        mine = views[cpu] = _within(own(cpu), within)
        if mine is None:
            lost.append(_Lost(cpu, before, len(read.problems)))
            continue
        clash = clash or bool(settled & mine.cpus.bits)
        settled |= mine.cpus.bits
        sets.append(mine)
    _read_views(views, _odd_members(sets) & cpus, own, within)
    if clash or not all(_is_consistent(candidate, views) for candidate in sets):
        _read_views(views, cpus, own, within)
        sets = _undisputed(read, views, what)
    _explain_lost(read, lost, sets, path_at, what)
    return sorted(sets, key=lambda shared: shared.cpus.first())


def _read_views(
    views: dict[int, Shared | None], cpus: CpuSet, own: Callable[[int], Shared | None], within: CpuSet
) -> None:
    """Add the sets of further CPUs."""
    for cpu in cpus:
        if cpu not in views:
            views[cpu] = _within(own(cpu), within)


def _odd_members(sets: list[Shared]) -> CpuSet:
    """Return the CPUs of the sets whose size no other set has; damage that still reads as a set makes such sets."""
    times = Counter(len(shared.cpus) for shared in sets)
    odd = (shared.cpus for shared in sets if len(shared.cpus) > 1 and times[len(shared.cpus)] == 1)
    return CpuSet(cpu for cpus in odd for cpu in cpus) if len(sets) > 1 else EMPTY


def _within(shared: Shared | None, cpus: CpuSet) -> Shared | None:
    return None if shared is None else shared._replace(cpus=shared.cpus & cpus)


def _undisputed(read: Reader, views: dict[int, Shared | None], what: str) -> list[Shared]:
    """Return the sets that no CPU contradicts and that overlap no other such set; report the others."""
    distinct: dict[CpuSet, Shared] = {}
    for shared in views.values():
        if shared is not None:
            distinct.setdefault(shared.cpus, shared)
    consistent = [candidate for candidate in distinct.values() if _is_consistent(candidate, views)]
    # several sets may claim a CPU that has no set of its own
    undisputed = [
        candidate
        for candidate in consistent
        if all(candidate is rival or candidate.cpus.isdisjoint(rival.cpus) for rival in consistent)
    ]
    for candidate in distinct.values():
        if candidate not in undisputed:
            problem = f"lists CPUs {shown(candidate.cpus)} as sharing a {what}, which contradicts other CPUs"
            read.problem(candidate.path, problem, f"no {what} of these CPUs")
    return undisputed


def _is_consistent(shared: Shared, views_by_cpu: dict[int, Shared | None]) -> bool:
    """Return whether no CPU of a set contradicts it."""
    views = (views_by_cpu.get(cpu) for cpu in shared.cpus)
    return all(view is None or view.cpus == shared.cpus for view in views)


def _explain_lost(
    read: Reader, lost: list[_Lost], sets: list[Shared], path_at: Callable[[int], str], what: str
) -> None:
    """Report, for each CPU without a set of its own, whether the file of another CPU lists it."""
    for cpu, first, end in lost:
        teller = next((shared for shared in sets if cpu in shared.cpus), None)
        used = f"/{teller.path}" if teller else f"the {what} of CPU {cpu} is unknown"
        if first == end:
            read.problem(path_at(cpu), "is missing", used)
        read.note_used(first, used, end)
