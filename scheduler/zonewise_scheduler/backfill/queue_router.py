"""Who stands in a line and who waits outside, in nobody's way; and whose time to run is over.

A workload is led to its ClusterQueue by its LocalQueue. Outside are those of LocalQueues that are held or are not
there, of ClusterQueues that are not there, and those that were deactivated. A ClusterQueue that is held has its line,
of which nobody has his turn. By HoldAndDrain those that run are to stop too (pkg/controller/core/workload_controller.go
reconcileOnLocalQueueActiveState, reconcileOnClusterQueueActiveState), as those do that were deactivated, or of which an
admission check has failed.
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
    """All that leads workloads to quotas."""

    cluster_queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()
    flavors: tuple[ResourceFlavor, ...] | None = None
    """None: all that are named exist."""
    local_queues: tuple[LocalQueue, ...] | None = None
    """None: workloads are submitted to ClusterQueues, whatever LocalQueues they name."""
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    """Labels by name; None: they do not matter."""


def rebuild_snapshot(
    old: Snapshot, queues: QueueConfiguration, running: Collection[Workload], placements: TopologySnapshot | None
) -> tuple[Snapshot, set[str]]:
    """Return the snapshot of other queues with those that run, and the names of queues that only these need.

    A queue that is not there any more stays, held, until nothing runs in it, so that it is counted on (as in Kueue,
    where a finalizer keeps it). `places`: of other nodes, where nothing is; None: those of the old snapshot.
    """
    named = {one.name for one in queues.cluster_queues}
    needed = {one.admission.cluster_queue for one in running if one.admission is not None}
    kept = [
        node.spec._replace(stop_policy="Hold") for name, node in old.cluster_queues.items() if name in needed - named
    ]
    found = Snapshot([*queues.cluster_queues, *kept], queues.cohorts, queues.flavors)
    found.inactive |= {one.name: "it has been deleted" for one in kept}
    found.add_workloads(running)
    if placements is not None:
        placements.add_all(running)
    found.tas_snapshot = old.tas_snapshot if placements is None else placements
    found.preemption_graph = old.preemption_graph
    return found, needed - named


class InadmissibleWorkload(NamedTuple):
    """A workload that waits outside of all lines."""

    workload: Workload
    queue: str
    """The ClusterQueue that it was submitted to; "": its LocalQueue leads."""
    message: str
    """A sentence."""


class QueueRouter:
    """Knows the LocalQueues."""

    def __init__(self, local_queues: Iterable[LocalQueue] | None) -> None:
        """Take them; None: those that are named do not matter."""
        self.local_queue_by_key = None if local_queues is None else {one.key: one for one in local_queues}

    def local_queue(self, workload: Workload) -> LocalQueue | None:
        """Return its LocalQueue; None where it is not known."""
        return None if self.local_queue_by_key is None else self.local_queue_by_key.get(workload.local_queue_key)

    def local_queue_weight(self, key: str) -> float:
        """Return the weight of a LocalQueue."""
        local = None if self.local_queue_by_key is None else self.local_queue_by_key.get(key)
        return 1.0 if local is None else local.fair_weight

    def cluster_queue(self, workload: Workload, submitted_to: str) -> str:
        """Return the name of the ClusterQueue; "" where nothing leads to one."""
        local = self.local_queue(workload)
        return submitted_to if local is None else local.cluster_queue

    def inadmissible_message(self, workload: Workload, submitted_to: str, cluster_queues: Mapping[str, object]) -> str:
        """Return why a workload may stand in no line, "" where it may; `known`: ClusterQueues, by name."""
        if not workload.active:
            return "it is deactivated"
        local, queue = self.local_queue(workload), self.cluster_queue(workload, submitted_to)
        if local is None and ((self.local_queue_by_key is not None and workload.queue_name) or not queue):
            return f"there is no LocalQueue {workload.local_queue_key}"
        if local is not None and local.stop_policy != "None":
            return f"LocalQueue {local.key} is inactive: stopPolicy is {local.stop_policy}"
        return "" if queue in cluster_queues else f"there is no ClusterQueue {queue}"

    def with_default_walltime(self, workload: Workload, spec: ClusterQueue | None) -> Workload:
        """Return a workload with the declared run time that its queues give to those that declare none."""
        return with_default_walltime(workload, self.local_queue(workload), spec)

    def stop_reason(self, workload: Workload, spec: ClusterQueue) -> StopReason | None:
        """Return why a workload that runs is to stop; None: it goes on."""
        local = self.local_queue(workload)
        if not workload.active:
            return "Deactivated"
        if workload.failed_checks:
            return "AdmissionCheck"
        if local is not None and local.stop_policy == "HoldAndDrain":
            return "LocalQueueStopped"
        return "ClusterQueueStopped" if spec.stop_policy == "HoldAndDrain" else None


def with_required_checks(workload: Workload, spec: ClusterQueue) -> Workload:
    """Return one that has its quota with the checks that it has to pass, where nobody told that it has passed them."""
    admission = workload.admission
    if admission is None or admission.admitted_at is not None or admission.pending_checks:
        return workload
    checks = admission_checks_for_workload(spec, admission)
    return replace(workload, admission=admission._replace(pending_checks=checks)) if checks else workload


def same_requirements(old: Workload, new: Workload) -> bool:
    """Tell whether what is promised to one is as good for the other, which is it in a newer state."""
    return (
        old.scheduling_shape == new.scheduling_shape
        and old.walltime == new.walltime
        and old.failed_checks == new.failed_checks
    )


def same_state(old: Workload, new: Workload) -> bool:
    """Tell whether two states of a workload are the same."""
    return all(getattr(old, each.name) == getattr(new, each.name) for each in fields(old))
