"""What LocalQueues have used lately, kept up to date: admission fair sharing (KEP-4136, quota.order.usage).

It is sampled at regular times, of all LocalQueues of queues where admission follows usage at once.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.queue.usage_ledger import (
    UsageLedgerEntry,
    calculate_decayed_consumed,
    calculate_usage,
    push_penalty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.backfill.queue_router import QueueRouter
    from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

_MILLI = 1000


class AdmissionFairSharing:
    """The usage of LocalQueues, by their keys."""

    def __init__(self, decay: AdmissionFairSharingConfig) -> None:
        self._decay = decay
        self._used: dict[str, UsageLedgerEntry] = {}
        self._at = inf
        """Of the last sample; infinite: there was none."""
        self._quiet = False

    def copy(self) -> AdmissionFairSharing:
        """Return another that changes on its own, and is sampled only when something is to be decided."""
        other = AdmissionFairSharing(self._decay)
        other._used, other._at, other._quiet = dict(self._used), self._at, True
        return other

    @property
    def usage_by_local_queue(self) -> Mapping[str, UsageLedgerEntry]:
        """What each of them has used."""
        return self._used

    @property
    def next_sample_at(self) -> float:
        """When it is to be sampled next, seconds; infinite where nobody is to be woken for that."""
        return inf if self._quiet else self._at + self._decay.usage_sampling_interval

    def restore(self, usage_by_local_queue: Mapping[str, UsageLedgerEntry]) -> None:
        """Take in what was used before a restart."""
        self._used = dict(usage_by_local_queue)
        self._at = max((one.last_update for one in usage_by_local_queue.values()), default=inf)

    def sample(self, now: float, snapshot: Snapshot) -> bool:
        """Take a sample of what runs if it is time; tell whether it was."""
        if self._at == inf:
            self._at = now
        if now < self._at + self._decay.usage_sampling_interval:
            return False
        sums: dict[str, dict[str, float]] = {}
        for one in _running(snapshot):
            own = sums.setdefault(one.local_queue_key, {})
            for key, amount in one.usage.items():
                own[key.resource] = own.get(key.resource, 0.0) + _in_units(key.resource, amount)
        for key in self._used.keys() | sums.keys():
            self._used[key] = calculate_decayed_consumed(self._of(key), sums.get(key, {}), now, self._decay)
        self._at = now
        return True

    def add_entry_penalty(self, workload: Workload) -> None:
        """Count one that is admitted now."""
        requests: dict[str, float] = {}
        for one in workload.total_requests:
            for name, amount in one.requests.items():
                requests[name] = requests.get(name, 0.0) + _in_units(name, amount)
        self._used[workload.local_queue_key] = push_penalty(self._of(workload.local_queue_key), requests, self._decay)

    def update_snapshot(self, snapshot: Snapshot, router: QueueRouter, keys: Iterable[str] | None = None) -> None:
        """Have decisions made by the usage as it is; `keys`: of these LocalQueues, None: of all."""
        for key in self._used if keys is None else keys:
            snapshot.local_queue_usage[key] = calculate_usage(
                self._used[key], router.local_queue_weight(key), self._decay
            )

    def _of(self, key: str) -> UsageLedgerEntry:
        return self._used.get(key) or UsageLedgerEntry({}, self._at, {})


def _running(snapshot: Snapshot) -> Iterator[Workload]:
    for name, node in snapshot.cluster_queues.items():
        if node.spec.usage_based_admission:
            yield from snapshot.workloads_by_queue[name].values()


def _in_units(resource: str, amount: int) -> float:
    """Return an amount in its unit: CPUs are counted in thousandths."""
    return amount / _MILLI if resource == "cpu" else float(amount)
