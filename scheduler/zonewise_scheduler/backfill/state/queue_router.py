"""Decides where a workload waits, and when it must stop running.

A LocalQueue routes a workload to its ClusterQueue. A workload is inadmissible, and in no pending queue, if:

- its LocalQueue is on hold or missing;
- its ClusterQueue is missing;
- it is deactivated;
- it is gated.

A ClusterQueue on hold keeps its pending queue but admits nothing. A workload with quota is stopped by HoldAndDrain on
either queue, by its deactivation, or by a failed admission check. Hold and the deletion of its LocalQueue stop it only
if it is not admitted yet (Kueue pkg/controller/core/workload_controller.go reconcileOnLocalQueueActiveState,
reconcileOnClusterQueueActiveState).
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.declared_walltime import with_default_walltime
from zonewise_scheduler.quota.cycle.scheduling_cycle import admission_checks_for_workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zonewise_scheduler.backfill.types import StopReason
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot


class QueueConfiguration(NamedTuple):
    """The whole configuration of quota: queues, cohorts, flavors and namespaces."""

    cluster_queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()
    flavors: tuple[ResourceFlavor, ...] | None = None
    """None: every flavor that a queue names exists."""
    local_queues: tuple[LocalQueue, ...] | None = None
    """None: workloads are submitted to ClusterQueues, regardless of the LocalQueues they name."""
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    """Labels by namespace; None: every queue accepts any namespace."""
    device_classes: Mapping[str, str] = {}
    """Names of the DeviceClasses that provide extended resources, by resource."""


def rebuild_snapshot(
    old: Snapshot,
    configuration: QueueConfiguration,
    running: Collection[Workload],
    placements: TopologySnapshot | None,
) -> tuple[Snapshot, set[str]]:
    """Return the snapshot of a new configuration with the running workloads, and the names of removed queues in it.

    A removed queue remains, on hold, until its last workload has finished; in Kueue, a finalizer keeps it.
    `placements`: empty topologies of other nodes, or None to keep those of the old snapshot.
    """
    configured = {spec.name for spec in configuration.cluster_queues}
    used = {workload.admission.cluster_queue for workload in running if workload.admission is not None}
    removed = [
        node.spec._replace(stop_policy="Hold") for name, node in old.cluster_queues.items() if name in used - configured
    ]
    new = Snapshot(
        [*configuration.cluster_queues, *removed],
        configuration.cohorts,
        configuration.flavors,
        tas_snapshot=old.tas_snapshot if placements is None else placements,
    )
    new.inactive |= {spec.name: "it has been deleted" for spec in removed}
    if placements is None:
        new.add_placed_workloads(running)
    else:
        new.add_workloads(running)
    new.preemption_graph, new.not_preempted = old.preemption_graph, old.not_preempted
    return new, used - configured


class InadmissibleWorkload(NamedTuple):
    """A workload that waits in no pending queue."""

    workload: Workload
    queue: str
    """ClusterQueue that it was submitted to; "" if its LocalQueue determines the queue."""
    message: str
    """The reason as a clause, such as "it is deactivated"."""


class QueueRouter:
    """Routes workloads by their LocalQueues."""

    def __init__(self, local_queues: Iterable[LocalQueue] | None) -> None:
        """Route by these LocalQueues; None: by the ClusterQueue that each workload was submitted to."""
        self.local_queue_by_key = None if local_queues is None else {queue.key: queue for queue in local_queues}

    def local_queue(self, workload: Workload) -> LocalQueue | None:
        """Return a workload's LocalQueue; None if it is unknown."""
        return None if self.local_queue_by_key is None else self.local_queue_by_key.get(workload.local_queue_key)

    def local_queue_weight(self, key: str) -> float:
        """Return the weight of a LocalQueue."""
        local = None if self.local_queue_by_key is None else self.local_queue_by_key.get(key)
        return 1.0 if local is None else local.fair_weight

    def cluster_queue(self, workload: Workload, submitted_to: str) -> str:
        """Return the name of a workload's ClusterQueue, "" if none; `submitted_to`: the queue without a LocalQueue."""
        local = self.local_queue(workload)
        return submitted_to if local is None else local.cluster_queue

    def inadmissible_message(self, workload: Workload, submitted_to: str, cluster_queues: Mapping[str, object]) -> str:
        """Return why a workload is inadmissible, "" if it is not; `cluster_queues`: by name."""
        if not workload.active:
            return "it is deactivated"
        if workload.admission_gates:
            return f"it is gated by {', '.join(workload.admission_gates)}"
        local, queue = self.local_queue(workload), self.cluster_queue(workload, submitted_to)
        if local is None and not queue and not workload.queue_name:
            return "it names no LocalQueue"
        if self._is_missing(workload) or (local is None and not queue):
            return f"there is no LocalQueue {workload.local_queue_key}"
        if local is not None and local.stop_policy != "None":
            return f"LocalQueue {local.key} is inactive: stopPolicy is {local.stop_policy}"
        return "" if queue in cluster_queues else f"there is no ClusterQueue {queue}"

    def _is_missing(self, workload: Workload) -> bool:
        """Return whether a workload names a LocalQueue that does not exist."""
        return bool(workload.queue_name) and self.local_queue_by_key is not None and self.local_queue(workload) is None

    def with_default_walltime(self, workload: Workload, spec: ClusterQueue | None) -> Workload:
        """Return a workload with a walltime if it, its LocalQueue or its ClusterQueue declares one."""
        return with_default_walltime(workload, self.local_queue(workload), spec)

    def stop_reason(self, workload: Workload, spec: ClusterQueue) -> StopReason | None:
        """Return why a workload with quota must stop; None if it continues."""
        local = self.local_queue(workload)
        stopping = {"HoldAndDrain"} if workload.is_admitted else {"Hold", "HoldAndDrain"}
        if not workload.active:
            return "Deactivated"
        if workload.failed_checks:
            return "AdmissionCheck"
        is_missing = self._is_missing(workload) and not workload.is_admitted
        if is_missing or (local is not None and local.stop_policy in stopping):
            return "LocalQueueStopped"
        return "ClusterQueueStopped" if spec.stop_policy in stopping else None


def with_required_checks(workload: Workload, spec: ClusterQueue) -> Workload:
    """Return a workload with the admission checks that it must pass, unless it lacks quota or is already admitted."""
    admission = workload.admission
    if admission is None or admission.admitted_at is not None or admission.pending_checks:
        return workload
    checks = admission_checks_for_workload(spec, admission)
    return replace(workload, admission=admission._replace(pending_checks=checks)) if checks else workload


def same_requirements(old: Workload, new: Workload) -> bool:
    """Return whether the reservation of a workload stays valid in its new state."""
    return (
        old.scheduling_shape == new.scheduling_shape
        and old.walltime == new.walltime
        and old.begin_at == new.begin_at
        and old.failed_checks == new.failed_checks
    )


def same_state(old: Workload, new: Workload) -> bool:
    """Return whether two states of a workload are equal in every field."""
    return all(getattr(old, field.name) == getattr(new, field.name) for field in fields(old))
