"""Admission fair sharing: the decayed usage of LocalQueues (KEP-4136; quota.queue.usage_ledger).

The LocalQueues of all ClusterQueues with usage-based admission are sampled at the same regular intervals. A LocalQueue
is also sampled at each of its admissions.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.queue.usage_ledger import (
    ResourceSums,
    UsageLedgerEntry,
    add_penalty,
    calculate_decayed_consumed,
    calculate_usage,
    withdraw_penalty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.state.queue_router import QueueRouter
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
        self._running: dict[str, dict[str, ResourceSums]] = {}
        """Usage of each LocalQueue, by ClusterQueue in which this pass has admitted workloads."""

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
        self._sampled_at = min((entry.last_update for entry in usage_by_local_queue.values()), default=inf)

    def sample(self, now: float, snapshot: Snapshot) -> bool:
        """Begin a pass: sample the running workloads if a sample is due; return whether it was."""
        self._running.clear()
        if self._sampled_at == inf:
            self._sampled_at = now
        if now < self._sampled_at + self._config.usage_sampling_interval:
            return False
        self._sampled_at = now
        if not self._config.usage_half_life_time:
            self._usage = {}
            return True
        sums: dict[str, ResourceSums] = {}
        for name, node in snapshot.cluster_queues.items():
            if node.spec.usage_based_admission:
                _add_usage(sums, snapshot.workloads_by_queue[name].values())
        for key in self._usage.keys() | sums.keys():
            self._usage[key] = calculate_decayed_consumed(self._entry(key), sums.get(key, {}), now, self._config)
        return True

    def charge_admission(self, workload: Workload, snapshot: Snapshot, now: float) -> None:
        """Sample the LocalQueue of a workload that is admitted now and already runs, and add its entry penalty."""
        key, queue = workload.local_queue_key, snapshot.cluster_queue_of(workload).name
        if (sums := self._running.get(queue)) is not None:
            _add_usage(sums, (workload,))
        else:
            sums = self._running[queue] = {}
            _add_usage(sums, snapshot.workloads_by_queue[queue].values())
        sampled = calculate_decayed_consumed(self._entry(key), sums[key], now, self._config)
        self._usage[key] = add_penalty(sampled, _requests(workload), self._config)

    def withdraw_charge(self, workload: Workload) -> None:
        """Take back the entry penalty of an admission that was not carried out."""
        key = workload.local_queue_key
        if workload.admission is not None and (entry := self._usage.get(key)) is not None:
            admitted_at = workload.admission.reserved_at
            self._usage[key] = withdraw_penalty(entry, _requests(workload), admitted_at, self._config)

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
        return self._usage.get(key) or UsageLedgerEntry({}, self._sampled_at)


def _add_usage(sums: dict[str, ResourceSums], workloads: Iterable[Workload]) -> None:
    """Add the usage of workloads to the sums of their LocalQueues."""
    for workload in workloads:
        usage = sums.setdefault(workload.local_queue_key, {})
        for key, amount in workload.usage.items():
            usage[key.resource] = usage.get(key.resource, 0.0) + _in_units(key.resource, amount)


def _requests(workload: Workload) -> ResourceSums:
    return {name: _in_units(name, amount) for name, amount in workload.requests_by_resource.items()}


def _in_units(resource: str, amount: int) -> float:
    """Return an amount in the resource's unit. CPUs are counted in thousandths."""
    return amount / _MILLI if resource == "cpu" else float(amount)
