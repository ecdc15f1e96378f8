"""Those that run, by their latest ends; who of them is to stop, and who is to have places yet."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.pool.pool_state import OVERRUN_EXTENSION
from zonewise_scheduler.backfill.timeline import RunningWorkload
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import needs_second_pass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.quota.api.workload_types import Eviction, Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot


class RunningWorkloads:
    """Workloads with their admissions; to iterate is by latest end, of equal ones by start."""

    def __init__(self) -> None:
        self._order: list[RunningWorkload] = []
        self._by_key: dict[str, RunningWorkload] = {}
        self._serial = 0
        self.stopping: set[str] = set()
        """Who was told to stop."""
        self._unplaced: dict[str, None] = {}
        """Who has its quota, and is to have places; ordered."""

    def __iter__(self) -> Iterator[RunningWorkload]:
        return iter(self._order)

    def copy(self) -> RunningWorkloads:
        """Return others that change on their own."""
        other = RunningWorkloads()
        other._order, other._by_key, other._serial = list(self._order), dict(self._by_key), self._serial
        other.stopping, other._unplaced = set(self.stopping), dict(self._unplaced)
        return other

    @property
    def by_key(self) -> Mapping[str, RunningWorkload]:
        """The runs by the keys of their workloads."""
        return self._by_key

    def add(self, workload: Workload) -> None:
        """Take in one that starts."""
        self._serial += 1
        self._put(workload, self._serial)

    def remove(self, key: str) -> RunningWorkload:
        """Take one out; raise KeyError if it does not run."""
        run = self._by_key.pop(key)
        del self._order[bisect_left(self._order, _place(run), key=_place)]
        self.stopping.discard(key)
        self._unplaced.pop(key, None)
        return run

    def update(self, workload: Workload) -> None:
        """Take in the new state of one that runs; its latest end may be another."""
        self._put(workload, self.remove(workload.key).serial)

    def extend_overrun(self, now: float) -> list[Workload]:
        """Expect those that have outlived their declared run times to run for another while; return them."""
        found: list[Workload] = []
        while self._order and self._order[0].deadline <= now:
            run = self._order.pop(0)._replace(deadline=now + OVERRUN_EXTENSION)
            self._by_key[run.workload.key] = run
            insort(self._order, run, key=_place)
            found.append(run.workload)
        return found

    # --- who is to stop, who is to have places

    def mark_stopping(self, key: str, eviction: Eviction) -> Workload:
        """Take note that one is to stop; return it as it is then. It runs on until it is removed."""
        run = self._by_key[key]
        run = run._replace(workload=replace(run.workload, eviction=eviction))
        self._order[bisect_left(self._order, _place(run), key=_place)] = self._by_key[key] = run
        self.stopping.add(key)
        self._unplaced.pop(key, None)
        return run.workload

    def track_placement(self, workload: Workload, placements: TopologySnapshot) -> None:
        """Have one placed if it lacks places, and has passed its checks."""
        self._unplaced.pop(workload.key, None)
        if needs_second_pass(workload, placements) and not (
            workload.admission is not None and workload.admission.pending_checks
        ):
            self._unplaced[workload.key] = None

    def awaiting_placement(self) -> list[Workload]:
        """Return those that have their quota, and are to have places."""
        return [self._by_key[key].workload for key in self._unplaced]

    def _put(self, workload: Workload, serial: int) -> None:
        since = 0.0 if workload.admission is None else workload.admission.started_at
        run = RunningWorkload(since + workload.max_duration, serial, workload)
        self._by_key[workload.key] = run
        insort(self._order, run, key=_place)
        if workload.eviction is not None:
            self.stopping.add(workload.key)


def _place(run: RunningWorkload) -> tuple[float, int]:
    return (run.deadline, run.serial)
