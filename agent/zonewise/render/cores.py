"""Cores, grouped by what they have in common: threads, kind, private caches, and special states of their CPUs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise.render.boxes import Cores
from zonewise.render.formatting import cache_name
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.model.cpu import Cache, Core
    from zonewise.machine.model.machine import Machine


class CoreSorter:
    """The cores of a machine by CPU, with the caches that are private to one core."""

    def __init__(self, machine: Machine) -> None:
        self._core_by_cpu: dict[int, Core] = {cpu: core for core in reversed(machine.cores) for cpu in core.cpus}
        self._private: dict[int, list[Cache]] = {}
        self._states = _states(machine)
        self.shared_caches: tuple[Cache, ...] = tuple(
            cache for cache in machine.caches if cache.cpus and not self._is_private(cache)
        )

    def _is_private(self, cache: Cache) -> bool:
        """Return whether a cache serves only one core, and store it with that core."""
        if not self.within_core(cache.cpus):
            return False
        self._private.setdefault(self._core_cpus(cache.cpus).first(), []).append(cache)
        return True

    def within_core(self, cpus: CpuSet) -> bool:
        """Return whether all CPUs belong to one core; `cpus` must not be empty."""
        return cpus <= self._core_cpus(cpus)

    def _core_cpus(self, cpus: CpuSet) -> CpuSet:
        """Return the CPUs of the core that contains the first CPU."""
        first = cpus.first()
        core = self._core_by_cpu.get(first)
        return core.cpus if core else CpuSet((first,))

    def cores(self, cpus: CpuSet) -> tuple[Cores, ...]:
        """Return the cores of these CPUs, with equal cores grouped, in the order of their first CPUs."""
        groups: dict[tuple[Cores, int], list[CpuSet]] = {}
        remaining = cpus
        while remaining:
            first = remaining.first()
            core = self._core_by_cpu.get(first)
            threads = core.cpus & remaining if core else CpuSet((first,))
            remaining -= threads
            key = Cores(
                (), core is not None, core.kind if core else None, self._caches(core, first), self._state(threads)
            )
            groups.setdefault((key, len(threads)), []).append(threads)
        return tuple(key._replace(cores=tuple(held)) for (key, _), held in groups.items())

    def _caches(self, core: Core | None, first: int) -> tuple[str, ...]:
        private = self._private.get(core.cpus.first() if core else first, ())
        names = Counter(cache_name(cache) for cache in sorted(private, key=lambda cache: (cache.level, cache.type)))
        return tuple(name if count == 1 else f"{count} × {name}" for name, count in names.items())

    def _state(self, threads: CpuSet) -> tuple[str, ...]:
        """Return the special states of a core's threads; a state of only some threads includes their positions."""
        states: list[str] = []
        for name, cpus in self._states:
            positions = [position for position, cpu in enumerate(threads, 1) if cpu in cpus]
            if len(positions) == len(threads):
                states.append(name)
            else:
                states += [f"thread {position} {name}" for position in positions]
        return tuple(states)


def _states(machine: Machine) -> tuple[tuple[str, CpuSet], ...]:
    cpus = machine.cpus
    denied = cpus.online - cpus.allowed if cpus.allowed else EMPTY
    return (
        ("offline", cpus.offline),
        ("not allowed", denied),
        ("isolated", (cpus.isolated or EMPTY) - cpus.offline),
        ("tickless", (cpus.nohz_full or EMPTY) - cpus.offline),
    )


def cpus_in_state(machine: Machine) -> Iterable[tuple[str, CpuSet]]:
    """Yield each special state that CPUs of the machine are in, with these CPUs."""
    return ((name, cpus) for name, cpus in _states(machine) if cpus)
