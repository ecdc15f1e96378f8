"""Admission fair sharing: the decayed usage of LocalQueues (KEP-4136; quota.queue.usage_ledger).

The LocalQueues of all ClusterQueues with usage-based admission are sampled at the same regular intervals.
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
    """The usage of each LocalQueue, by key."""

    def __init__(self, config: AdmissionFairSharingConfig) -> None:
        self._config = config
        self._usage: dict[str, UsageLedgerEntry] = {}
        self._sampled_at = inf
        """Time of the last sample, in seconds; infinite if there is none."""
        self._wakes = True
        """Whether the planner should wake for a sample."""

    def copy(self) -> AdmissionFairSharing:
        """Return an independent copy that does not wake the planner; it is sampled only when a pass runs anyway."""
        other = AdmissionFairSharing(self._config)
        other._usage, other._sampled_at, other._wakes = dict(self._usage), self._sampled_at, False
        return other

    @property
    def usage_by_local_queue(self) -> Mapping[str, UsageLedgerEntry]:
        """The usage of each LocalQueue."""
        return self._usage

    @property
    def next_sample_at(self) -> float:
        """Time at which the planner should wake for the next sample, in seconds; infinite if never."""
        return self._sampled_at + self._config.usage_sampling_interval if self._wakes else inf

    def restore(self, usage_by_local_queue: Mapping[str, UsageLedgerEntry]) -> None:
        """Restore the usage from before a restart."""
        self._usage = dict(usage_by_local_queue)
        self._sampled_at = max((entry.last_update for entry in usage_by_local_queue.values()), default=inf)

    def sample(self, now: float, snapshot: Snapshot) -> bool:
        """Sample the running workloads if a sample is due; return whether it was."""
        if self._sampled_at == inf:
            self._sampled_at = now
        if now < self._sampled_at + self._config.usage_sampling_interval:
            return False
        sums: dict[str, dict[str, float]] = {}
        for workload in _sampled_workloads(snapshot):
            usage = sums.setdefault(workload.local_queue_key, {})
            for key, amount in workload.usage.items():
                usage[key.resource] = usage.get(key.resource, 0.0) + _in_units(key.resource, amount)
        for key in self._usage.keys() | sums.keys():
            self._usage[key] = calculate_decayed_consumed(self._entry(key), sums.get(key, {}), now, self._config)
        self._sampled_at = now
        return True

    def add_entry_penalty(self, workload: Workload) -> None:
        """Charge a workload's admission to its LocalQueue until the next sample."""
        requests = {name: _in_units(name, amount) for name, amount in workload.requests_by_resource.items()}
        self._usage[workload.local_queue_key] = push_penalty(
            self._entry(workload.local_queue_key), requests, self._config
        )

    def update_snapshot(self, snapshot: Snapshot, router: QueueRouter, keys: Iterable[str] | None = None) -> None:
        """Write the current usage of the LocalQueues in `keys`, or of all if None, into the snapshot."""
        for key in self._usage.keys() | (router.local_queue_by_key or ()) if keys is None else keys:
            snapshot.local_queue_usage[key] = calculate_usage(
                self._entry(key), router.local_queue_weight(key), self._config
            )

    def forget_deleted(self, router: QueueRouter) -> None:
        """Forget the usage of LocalQueues that no longer exist (localqueue_controller.go Delete)."""
        if (existing := router.local_queue_by_key) is not None:
            self._usage = {key: entry for key, entry in self._usage.items() if key in existing}

    def _entry(self, key: str) -> UsageLedgerEntry:
        return self._usage.get(key) or UsageLedgerEntry({}, self._sampled_at, {})


def _sampled_workloads(snapshot: Snapshot) -> Iterator[Workload]:
    for name, node in snapshot.cluster_queues.items():
        if node.spec.usage_based_admission:
            yield from snapshot.workloads_by_queue[name].values()


def _in_units(resource: str, amount: int) -> float:
    """Return an amount in the resource's unit. CPUs are counted in thousandths."""
    return amount / _MILLI if resource == "cpu" else float(amount)
