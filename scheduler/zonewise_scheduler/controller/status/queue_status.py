"""The statuses of ClusterQueues, LocalQueues and Cohorts, as coalesced writes.

A status is written once it has not changed for SETTLED seconds, but no later than DELAY seconds after its first change.
So a queue in which many workloads start costs one write per DELAY seconds, and the status of an idle queue is exact.
While many other writes are pending, BUSY_SETTLED and BUSY_DELAY apply instead, because admissions take precedence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.controller.merge_patch import merge_patch
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import Condition, api_time, with_conditions
from zonewise_scheduler.quota.api.amount import amount_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.status.queue_summaries import (
        Activity,
        ClusterQueueSummary,
        LocalQueueSummary,
        QueueSummaries,
        ResourceSummary,
    )
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry

PURPOSE = "queue status"
SETTLED = 1.0
"""Seconds without a change after which a status is written."""
DELAY = 5.0
"""Maximum delay of a status, in seconds. 60 queues cost at most 12 writes per second."""
BUSY_SETTLED, BUSY_DELAY = 5.0, 15.0
"""The same in seconds, while many other writes are pending."""


def cluster_queue_status(observed: Json, summary: ClusterQueueSummary, now: float, *, fair_sharing: bool) -> Json:
    """Return the status of a ClusterQueue; `observed`: the ClusterQueue object."""
    status: Json = {
        "conditions": _conditions(observed, summary.activity, now),
        "flavorsReservation": _flavors(
            summary.resources, lambda each: {"total": each.reserved, "borrowed": each.reserved_borrowed}
        ),
        "flavorsUsage": _flavors(summary.resources, lambda each: {"total": each.used, "borrowed": each.borrowed}),
        "pendingWorkloads": summary.counts.pending,
        "reservingWorkloads": summary.counts.reserving,
        "admittedWorkloads": summary.counts.admitted,
    }
    if fair_sharing:
        status["fairSharing"] = {"weightedShare": summary.share.rounded_weighted_share}
    return status


def local_queue_status(observed: Json, summary: LocalQueueSummary, now: float) -> Json:
    """Return the status of a LocalQueue; `observed`: the LocalQueue object."""
    status: Json = {
        "conditions": _conditions(observed, summary.activity, now),
        "flavorsReservation": _flavors(summary.resources, lambda each: {"total": each.reserved}),
        "flavorsUsage": _flavors(summary.resources, lambda each: {"total": each.used}),
        "pendingWorkloads": summary.counts.pending,
        "reservingWorkloads": summary.counts.reserving,
        "admittedWorkloads": summary.counts.admitted,
    }
    if (past := summary.past_usage) is not None:
        status["fairSharing"] = {"weightedShare": 0, "admissionFairSharingStatus": _past_usage(past)}
    return status


def status_patch(observed: Json, status: Json) -> Json:
    """Return the merge patch of the status fields that differ; empty if none differs."""
    before: Json = observed.get("status") or {}
    changes = merge_patch({name: before.get(name) for name in status}, status)
    return {"status": changes} if changes else {}


class _Change(NamedTuple):
    body: Json
    first_at: float
    """Time when the status first differed from the observed one."""
    last_at: float
    """Time of its last change."""


class QueueStatuses:
    """Remembers which statuses have changed, and when."""

    def __init__(self, *, fair_sharing: bool = False) -> None:
        self._fair_sharing = fair_sharing
        self._changes: dict[ObjectKey, _Change] = {}

    def due(
        self, summaries: QueueSummaries, objects: Callable[[Resource], Iterable[Json]], now: float, *, busy: bool
    ) -> Iterator[Write]:
        """Yield the writes that are due; `objects`: the observed objects of a kind.

        `busy`: whether many other writes are pending.
        """
        settled, delay = (BUSY_SETTLED, BUSY_DELAY) if busy else (SETTLED, DELAY)
        changes: dict[ObjectKey, _Change] = {}
        for key, observed, status in self._statuses(summaries, objects, now):
            body = status_patch(observed, status)
            if not body:
                continue
            old = self._changes.get(key)
            first_at = now if old is None else old.first_at
            last_at = old.last_at if old is not None and _same(old.body, body) else now
            if now >= last_at + settled or now >= first_at + delay:
                yield _write(key, observed, body)
            else:
                changes[key] = _Change(body, first_at, last_at)
        self._changes = changes

    def _statuses(
        self, summaries: QueueSummaries, objects: Callable[[Resource], Iterable[Json]], now: float
    ) -> Iterator[tuple[ObjectKey, Json, Json]]:
        """Yield key, observed object and status of each queue in the planner."""
        for observed in objects(CLUSTER_QUEUES):
            key = _key(CLUSTER_QUEUES, observed)
            if (queue := summaries.cluster_queues.get(key.name)) is not None:
                yield key, observed, cluster_queue_status(observed, queue, now, fair_sharing=self._fair_sharing)
        for observed in objects(LOCAL_QUEUES):
            key = _key(LOCAL_QUEUES, observed)
            if (local := summaries.local_queues.get(key.namespaced_name)) is not None:
                yield key, observed, local_queue_status(observed, local, now)
        for observed in objects(COHORTS) if self._fair_sharing else ():
            key = _key(COHORTS, observed)
            if (share := summaries.cohorts.get(key.name)) is not None:
                yield key, observed, {"fairSharing": {"weightedShare": share.rounded_weighted_share}}


def _key(resource: Resource, observed: Json) -> ObjectKey:
    metadata = observed["metadata"]
    return ObjectKey(resource, metadata.get("namespace", ""), metadata["name"])


def _write(key: ObjectKey, observed: Json, body: Json) -> Write:
    metadata = observed["metadata"]
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    return Write(Verb.MERGE_PATCH, key, PURPOSE, body, "status", uid, version)


def _same(old: Json, new: Json) -> bool:
    """Return whether two patches are equal except for the times of conditions."""
    return _without_times(old) == _without_times(new)


def _without_times(body: Json) -> Json:
    status = dict(body["status"])
    if "conditions" in status:
        status["conditions"] = [{**entry, "lastTransitionTime": ""} for entry in status["conditions"]]
    return status


def _conditions(observed: Json, activity: Activity, now: float) -> list[Json]:
    condition = Condition("Active", activity.is_active, activity.reason, activity.message)
    return with_conditions(observed, [condition], now)


def _past_usage(entry: UsageLedgerEntry) -> Json:
    consumed = {
        resource: amount_text(resource, round(amount * 1000 if resource == CPU else amount))
        for resource, amount in sorted(entry.consumed.items())
    }
    return {"consumedResources": consumed, "lastUpdate": api_time(entry.last_update)}


def _flavors(
    resources: Mapping[FlavorResource, ResourceSummary], amounts: Callable[[ResourceSummary], Mapping[str, int]]
) -> list[Json]:
    """Return the usage of each flavor in the order of the quotas; unused resources are 0."""
    flavors: dict[str, list[Json]] = {}
    for key, summary in resources.items():
        texts = {name: amount_text(key.resource, amount) for name, amount in amounts(summary).items()}
        flavors.setdefault(key.flavor, []).append({"name": key.resource, **texts})
    return [{"name": flavor, "resources": entries} for flavor, entries in flavors.items()]
