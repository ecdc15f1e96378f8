"""Adds up the usage of runs by user, queue, namespace, kind, day or month, record by record."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_common.k8s.dates import utc_date
from zonewise_scheduler.quota.api.amount import resource_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zonewise_scheduler.accounting.run_record import PodSetRecord, RunRecord

UNKNOWN_USER = "-"
_HOUR = 3600.0
_DAY = 86_400
_UNITS = {"cpu": 1000.0, "memory": float(1 << 30), "ephemeral-storage": float(1 << 30)}
"""Amounts in one unit of a report: cores and GiB."""
_RUNS_TO_AN_END = frozenset({"succeeded", "failed", "timeout"})
"""Outcomes of runs that tell how much of the walltime a job needs."""


@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    return utc_date(days * _DAY).strftime("%Y-%m-%d")


KEYS: Mapping[str, Callable[[RunRecord], str]] = {
    "user": lambda record: record.user or UNKNOWN_USER,
    "queue": lambda record: record.queue,
    "cluster-queue": lambda record: record.cluster_queue,
    "namespace": lambda record: record.namespace,
    "kind": lambda record: record.kind,
    "month": lambda record: _day(int(record.ended // _DAY))[:7],
    "day": lambda record: _day(int(record.ended // _DAY)),
}
"""What runs can be grouped by. The days and months are those of the end of a run, in UTC."""


class UsageGroup:
    """The usage of the runs of one group."""

    def __init__(self) -> None:
        self.runs = 0
        self.jobs = 0
        """Runs after which the job had ended, so each job counts once."""
        self.outcomes: dict[str, int] = {}
        """Number of runs by outcome."""
        self.hours: dict[str, float] = {}
        """Hours of cores, GiB and other units, by resource."""
        self.waits: array[float] = array("d")
        """Seconds from queueing to start, for each run with a start."""
        self._run_time = self._walltime = 0.0

    def add(self, record: RunRecord) -> None:
        """Add a run."""
        self.runs += 1
        self.jobs += record.outcome not in {"evicted", "replaced"}
        self.outcomes[record.outcome] = self.outcomes.get(record.outcome, 0) + 1
        wait = record.wait
        if wait is None:
            return
        self.waits.append(wait)
        seconds = record.run_time
        if record.walltime and record.outcome in _RUNS_TO_AN_END:
            self._run_time += seconds
            self._walltime += record.walltime
        for pod_set in record.pod_sets:
            for resource, units in _units(pod_set).items():
                self.hours[resource] = self.hours.get(resource, 0.0) + units * seconds / _HOUR

    def share_of_runs(self, *outcomes: str) -> float | None:
        """Return the share of runs with these outcomes; None: there are no runs."""
        return sum(self.outcomes.get(each, 0) for each in outcomes) / self.runs if self.runs else None

    @property
    def walltime_used(self) -> float | None:
        """Return run times divided by declared walltimes; None: no job declares one."""
        return self._run_time / self._walltime if self._walltime else None

    @property
    def mean_wait(self) -> float | None:
        """Return the mean wait in seconds; None: no run has started."""
        return sum(self.waits) / len(self.waits) if self.waits else None

    def wait_percentile(self, percent: int) -> float | None:
        """Return the shortest wait in seconds that so many percent of the runs do not exceed; None: no run started."""
        if not self.waits:
            return None
        return sorted(self.waits)[-(-percent * len(self.waits) // 100) - 1]


def group_usage(records: Iterable[RunRecord], keys: Sequence[str]) -> dict[tuple[str, ...], UsageGroup]:
    """Return the usage by the values of keys, which are names in KEYS; sorted by these values."""
    readers = [KEYS[key] for key in keys]
    groups: dict[tuple[str, ...], UsageGroup] = {}
    for record in records:
        values = tuple(read(record) for read in readers)
        group = groups.get(values)
        if group is None:
            group = groups[values] = UsageGroup()
        group.add(record)
    return dict(sorted(groups.items()))


def _units(pod_set: PodSetRecord) -> dict[str, float]:
    """Return the units that all pods of a pod set request, by resource; a quantity that is none counts as zero."""
    return {name: pod_set.pods * _quantity_units(name, text) for name, text in pod_set.requests.items()}


@lru_cache(maxsize=4096)
def _quantity_units(resource: str, quantity: str) -> float:
    try:
        return resource_value(resource, quantity) / _UNITS.get(resource, 1.0)
    except ValueError:
        return 0.0
