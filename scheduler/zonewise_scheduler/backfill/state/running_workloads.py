"""Running workloads by deadline, including which must stop and which lack a topology assignment."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.policies import extended_deadline
from zonewise_scheduler.backfill.reservations.timeline import RunningWorkload
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import needs_second_pass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.quota.api.workload_types import Eviction, Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot


class RunningWorkloads:
    """Workloads with their admissions; iteration is by deadline, then by start."""

    def __init__(self) -> None:
        self._sorted: list[RunningWorkload] = []
        self._by_key: dict[str, RunningWorkload] = {}
        self._serial = 0
        self.stopping: set[str] = set()
        """Keys of the workloads that must stop."""
        self.overrun: set[str] = set()
        """Keys of the workloads that have outlived their walltime."""
        self._unplaced: dict[str, None] = {}
        """Keys of the workloads that lack a topology assignment; ordered."""

    def __iter__(self) -> Iterator[RunningWorkload]:
        return iter(self._sorted)

    def copy(self) -> RunningWorkloads:
        """Return an independent copy."""
        other = RunningWorkloads()
        other._sorted, other._by_key, other._serial = list(self._sorted), dict(self._by_key), self._serial
        other.stopping, other.overrun = set(self.stopping), set(self.overrun)
        other._unplaced = dict(self._unplaced)
        return other

    @property
    def by_key(self) -> Mapping[str, RunningWorkload]:
        """The running workloads by key."""
        return self._by_key

    def add(self, workload: Workload) -> None:
        """Add a workload that starts."""
        self._serial += 1
        self._insert(workload, self._serial)

    def remove(self, key: str) -> RunningWorkload:
        """Remove and return a workload; raise KeyError if it is not running."""
        run = self._by_key.pop(key)
        del self._sorted[self._index(run)]
        self.stopping.discard(key)
        self.overrun.discard(key)
        self._unplaced.pop(key, None)
        return run

    def update(self, workload: Workload) -> None:
        """Replace the state of a running workload; its deadline may change."""
        self._insert(workload, self.remove(workload.key).serial)

    def ending_by(self, time: float) -> set[str]:
        """Return the keys of the workloads whose deadlines come by a time, in seconds."""
        keys: set[str] = set()
        for run in self._sorted:
            if run.deadline > time:
                break
            keys.add(run.workload.key)
        return keys

    def extend_overrun(self, now: float) -> list[Workload]:
        """Extend the deadlines that have passed; return the workloads that have outlived them."""
        extended: list[Workload] = []
        while self._sorted and self._sorted[0].deadline <= now:
            run = self._sorted.pop(0)
            workload = run.workload
            run = run._replace(deadline=extended_deadline(_started_at(workload), workload.max_duration, now))
            self._by_key[workload.key] = run
            insort(self._sorted, run, key=_sort_key)
            extended.append(workload)
        self.overrun.update(workload.key for workload in extended)
        return extended

    def mark_stopping(self, key: str, eviction: Eviction) -> Workload:
        """Mark a workload as stopping and return its new state. It runs until it is removed."""
        run = self._by_key[key]
        run = run._replace(workload=replace(run.workload, eviction=eviction))
        self._sorted[self._index(run)] = self._by_key[key] = run
        self.stopping.add(key)
        self._unplaced.pop(key, None)
        return run.workload

    def track_placement(self, workload: Workload, placements: TopologySnapshot) -> None:
        """Record whether a workload has passed its admission checks but lacks a topology assignment."""
        self._unplaced.pop(workload.key, None)
        if needs_second_pass(workload, placements) and not (
            workload.admission is not None and workload.admission.pending_checks
        ):
            self._unplaced[workload.key] = None

    def awaiting_placement(self) -> list[Workload]:
        """Return the workloads that have quota and still need a topology assignment."""
        return [self._by_key[key].workload for key in self._unplaced]

    def _insert(self, workload: Workload, serial: int) -> None:
        run = RunningWorkload(_started_at(workload) + workload.max_duration, serial, workload)
        self._by_key[workload.key] = run
        insort(self._sorted, run, key=_sort_key)
        if workload.eviction is not None:
            self.stopping.add(workload.key)

    def _index(self, run: RunningWorkload) -> int:
        return bisect_left(self._sorted, _sort_key(run), key=_sort_key)


def _started_at(workload: Workload) -> float:
    return 0.0 if workload.admission is None else workload.admission.started_at


def _sort_key(run: RunningWorkload) -> tuple[float, int]:
    return (run.deadline, run.serial)
