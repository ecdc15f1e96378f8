"""Summaries of each queue: workloads by state, quota, usage. Statuses, metrics and the read API use them.

The rules follow Kueue's pkg/cache/scheduler/clusterqueue.go inactiveReason, getUsage; pkg/controller/core
clusterqueue_controller.go, localqueue_controller.go.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.resource_quota import FlavorResource, ResourceQuota
from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, LocalQueue
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.drs import DRS
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry

Amounts = dict[FlavorResource, int]


_INACTIVE_REASONS = {
    "missing ResourceFlavors": "FlavorNotFound",
    "missing AdmissionChecks": "AdmissionCheckNotFound",
    "inactive AdmissionChecks": "AdmissionCheckInactive",
    "there is no Topology": "TopologyNotFound",
}
"""Reasons by the part of a Snapshot's message that leads to them."""


class Activity(NamedTuple):
    """The condition Active of a queue."""

    is_active: bool
    reason: str
    message: str


class WorkloadCounts(NamedTuple):
    """Workloads of a queue by state."""

    active: int = 0
    """Pending, and considered in the next passes."""
    inadmissible: int = 0
    """Pending, and not considered until the cluster changes."""
    reserving: int = 0
    """Workloads with quota."""
    admitted: int = 0
    """Workloads with quota whose admission checks have all passed."""

    @property
    def pending(self) -> int:
        """Return the number of workloads without quota."""
        return self.active + self.inadmissible


class ResourceSummary(NamedTuple):
    """One resource of one flavor in a ClusterQueue, as amounts."""

    quota: ResourceQuota
    reserved: int
    used: int
    """Amount used by workloads whose admission checks have passed."""
    has_cohort: bool = True
    """Whether the ClusterQueue belongs to a cohort. Without one, it borrows nothing, even if its quota was reduced."""

    @property
    def borrowed(self) -> int:
        """Return the part of the used amount that is borrowed from the cohort."""
        return self._borrowed(self.used)

    @property
    def reserved_borrowed(self) -> int:
        """Return the part of the reserved amount that is borrowed from the cohort."""
        return self._borrowed(self.reserved)

    def _borrowed(self, amount: int) -> int:
        return max(0, minus(amount, self.quota.nominal)) if self.has_cohort else 0


class ClusterQueueSummary(NamedTuple):
    """What a ClusterQueue's status, metrics and row in the read API show."""

    name: str
    cohort: str
    activity: Activity
    counts: WorkloadCounts
    resources: Mapping[FlavorResource, ResourceSummary]
    share: DRS


class LocalQueueSummary(NamedTuple):
    """What a LocalQueue's status, metrics and row in the read API show."""

    namespace: str
    name: str
    cluster_queue: str
    activity: Activity
    counts: WorkloadCounts
    resources: Mapping[FlavorResource, ResourceSummary]
    """All flavors and resources of its ClusterQueue. The quotas are those of the ClusterQueue."""
    past_usage: UsageLedgerEntry | None = None
    """Its decayed usage; None if usage does not order the LocalQueues of its ClusterQueue."""


class CohortSummary(NamedTuple):
    """What a Cohort's metrics show."""

    name: str
    parent: str
    share: DRS
    quotas: Mapping[FlavorResource, int]
    """Quotas of the Cohort and all its descendants, as amounts."""
    usage: Mapping[FlavorResource, int]
    """The usage of its descendants, without the part that is covered by quota which they do not lend."""


class QueueSummaries(NamedTuple):
    """The summaries of all queues."""

    cluster_queues: Mapping[str, ClusterQueueSummary] = {}
    local_queues: Mapping[str, LocalQueueSummary] = {}
    """LocalQueues by namespace/name."""
    cohorts: Mapping[str, DRS] = {}
    """Share of each Cohort."""
    cohort_tree: Mapping[str, CohortSummary] = {}


class _Usage:
    """Usage and number of the workloads in one queue."""

    def __init__(self) -> None:
        self.reserving = self.admitted = 0
        self.reserved: Amounts = {}
        self.used: Amounts = {}

    def add(self, workload: Workload) -> None:
        self.reserving += 1
        _add(self.reserved, workload.usage)
        if workload.is_admitted:
            self.admitted += 1
            _add(self.used, workload.usage)


def summarize_queues(state: PlannerState, problems: Mapping[str, Iterable[str]]) -> QueueSummaries:
    """Return a summary of each queue; `problems`: as in PlannerFeed. The cost grows with the number of workloads."""
    usage_by_queue, usage_by_local_queue = _usages(state)
    inadmissible_by_queue, pending_by_local_queue = _pending_numbers(state)
    cluster_queues = {
        name: ClusterQueueSummary(
            name,
            node.spec.cohort_name,
            _cluster_queue_activity(state, node.spec, problems),
            _cluster_queue_counts(state, name, inadmissible_by_queue.get(name, 0), usage_by_queue.get(name)),
            _resources(node, usage_by_queue.get(name)),
            dominant_resource_share(node),
        )
        for name, node in state.snapshot.cluster_queues.items()
    }
    past_usage: Mapping[str, UsageLedgerEntry] = (
        {} if state.fair_sharing is None else state.fair_sharing.usage_by_local_queue
    )
    local_queues: dict[str, LocalQueueSummary] = {}
    for key, spec in (state.router.local_queue_by_key or {}).items():
        node, usage = state.snapshot.cluster_queues.get(spec.cluster_queue), usage_by_local_queue.get(key)
        active, inadmissible = pending_by_local_queue.get(key, (0, 0))
        counts = WorkloadCounts(active, inadmissible) if usage is None else WorkloadCounts(
            active, inadmissible, usage.reserving, usage.admitted)  # fmt: skip
        local_queues[key] = LocalQueueSummary(
            spec.namespace,
            spec.name,
            spec.cluster_queue,
            _local_queue_activity(spec, cluster_queues.get(spec.cluster_queue), problems),
            counts,
            {} if node is None else _resources(node, usage),
            None if node is None or not node.spec.usage_based_admission else past_usage.get(key),
        )
    cohorts = {name: dominant_resource_share(node) for name, node in state.snapshot.cohorts.items()}
    return QueueSummaries(cluster_queues, local_queues, cohorts, _cohort_tree(state, cohorts))


def _cohort_tree(state: PlannerState, shares: Mapping[str, DRS]) -> dict[str, CohortSummary]:
    return {
        name: CohortSummary(
            name,
            "" if node.parent is None else node.parent.name,
            shares[name],
            dict(node.subtree_quota),
            dict(node.usage),
        )
        for name, node in state.snapshot.cohorts.items()
    }


def _usages(state: PlannerState) -> tuple[dict[str, _Usage], dict[str, _Usage]]:
    """Return the usage of running workloads by ClusterQueue, and by key of the LocalQueue."""
    by_queue: dict[str, _Usage] = {}
    by_local_queue: dict[str, _Usage] = {}
    for name, workloads in state.snapshot.workloads_by_queue.items():
        usage = by_queue[name] = _Usage()
        for workload in workloads.values():
            usage.add(workload)
            by_local_queue.setdefault(workload.local_queue_key, _Usage()).add(workload)
    return by_queue, by_local_queue


def _pending_numbers(state: PlannerState) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Return the inadmissible workloads by ClusterQueue, and the active and inadmissible ones by LocalQueue.

    All workloads of an inactive ClusterQueue are inadmissible (pkg/cache/queue/metrics.go reportLQPendingWorkloads).
    """
    by_queue: dict[str, int] = {}
    by_local_queue: dict[str, tuple[int, int]] = {}
    for name, queue in state.pending_queues.items():
        keys = set(queue.heap.inadmissible)
        by_queue[name] = len(keys)
        is_inactive = name in state.snapshot.inactive
        numbers = Counter(
            (each.namespace, each.queue_name, is_inactive or each.key in keys) for each in queue.heap.workloads()
        )
        for (namespace, local_queue, is_inadmissible), number in numbers.items():
            key = f"{namespace}/{local_queue}"
            active, inadmissible = by_local_queue.get(key, (0, 0))
            by_local_queue[key] = (
                (active, inadmissible + number) if is_inadmissible else (active + number, inadmissible)
            )
    return by_queue, by_local_queue


def _cluster_queue_counts(state: PlannerState, name: str, inadmissible: int, usage: _Usage | None) -> WorkloadCounts:
    queue = state.pending_queues.get(name)
    active = 0 if queue is None else len(queue.heap) - inadmissible
    if name in state.snapshot.inactive:
        active, inadmissible = 0, active + inadmissible
    return WorkloadCounts(active, inadmissible, *((0, 0) if usage is None else (usage.reserving, usage.admitted)))


def _resources(node: ClusterQueueSnapshot, usage: _Usage | None) -> dict[FlavorResource, ResourceSummary]:
    usage = usage or _Usage()
    return {
        key: ResourceSummary(quota, usage.reserved.get(key, 0), usage.used.get(key, 0), node.parent is not None)
        for key, quota in node.quotas.items()
    }


def _cluster_queue_activity(state: PlannerState, spec: ClusterQueue, problems: Mapping[str, Iterable[str]]) -> Activity:
    flavors = dict.fromkeys(name for group in spec.resource_groups for name in group.flavor_names)
    own = [*problems.get(f"clusterQueues/{spec.name}", ())]
    own += [
        f"ResourceFlavor {name}: {each}" for name in flavors for each in problems.get(f"resourceFlavors/{name}", ())
    ]
    own += [f"Cohort {spec.cohort_name}: {each}" for each in problems.get(f"cohorts/{spec.cohort_name}", ())]
    cause = state.snapshot.inactive.get(spec.name)
    if cause is None:
        return Activity(is_active=True, reason="Ready", message=_with_problems("Can admit new workloads", own))
    message = _with_problems(f"Can't admit new workloads: {cause}", own)
    return Activity(is_active=False, reason=_inactive_reason(state, spec, cause), message=message)


def _inactive_reason(state: PlannerState, spec: ClusterQueue, cause: str) -> str:
    if spec.name in state.removed_queues:
        return "Terminating"
    if spec.stop_policy != "None":
        return "Stopped"
    return next((reason for kind, reason in _INACTIVE_REASONS.items() if kind in cause), "CohortCycle")


def _local_queue_activity(
    spec: LocalQueue, queue: ClusterQueueSummary | None, problems: Mapping[str, Iterable[str]]
) -> Activity:
    own = list(problems.get(f"localQueues/{spec.key}", ()))
    prefix = "Can't submit new workloads to LocalQueue:"
    if spec.stop_policy != "None":
        return Activity(False, "Stopped", _with_problems(f"{prefix} stopPolicy is {spec.stop_policy}", own))
    if queue is None:
        message = f"{prefix} there is no ClusterQueue {spec.cluster_queue!r:.80}"
        return Activity(False, "ClusterQueueDoesNotExist", _with_problems(message, own))
    if not queue.activity.is_active:
        message = f"{prefix} ClusterQueue {queue.name} is inactive"
        return Activity(False, "ClusterQueueIsInactive", _with_problems(message, own))
    return Activity(True, "Ready", _with_problems("Can submit new workloads to LocalQueue", own))


def _with_problems(message: str, problems: Iterable[str]) -> str:
    invalid = "; ".join(problems)
    return f"{message}. Invalid: {invalid}" if invalid else message


def _add(sums: Amounts, usage: Mapping[FlavorResource, int]) -> None:
    for key, amount in usage.items():
        sums[key] = plus(sums.get(key, 0), amount)
