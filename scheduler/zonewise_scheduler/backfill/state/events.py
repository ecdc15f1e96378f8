"""Events of workloads, queues and nodes, which change the planner's state but decide nothing.

A workload goes through these states:

    state          event                                    next state
    -              submit                                   pending, or inadmissible if QueueRouter has a message
    pending        submit, update, reconfigure              pending, or inadmissible
    inadmissible   submit, update, reconfigure              pending, or inadmissible
    pending        withdraw                                 -
    inadmissible   withdraw                                 -
    pending        scheduling pass: admitted                running
    running        update, checks_passed                    running
    running        scheduling pass: victim or stop order    running, and marked as stopping
    running        evict, forget                            pending, or inadmissible
    running        finish                                   -
    running        scheduling pass: slice replaced          -
    -              adopt                                    running
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.reservations.cohort_index import CohortIndex
from zonewise_scheduler.backfill.state.begin_times import BeginTimes
from zonewise_scheduler.backfill.state.pending_queue import PendingQueue
from zonewise_scheduler.backfill.state.planner_state import note_begin_time, release_reservation, review_running
from zonewise_scheduler.backfill.state.queue_router import (
    InadmissibleWorkload,
    QueueRouter,
    rebuild_snapshot,
    same_requirements,
    same_state,
    with_required_checks,
)
from zonewise_scheduler.quota.queue.heads import matches_namespace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
    from zonewise_scheduler.quota.api.workload_types import Admission, Eviction, Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot
    from zonewise_scheduler.quota.topology.types import TopologyAssignment


def submit(state: PlannerState, workload: Workload, queue: str = "") -> None:
    """Add a workload, or replace its state if it already waits.

    The workload is then pending in the ClusterQueue of its LocalQueue, or in `queue` if LocalQueues are not used. It is
    inadmissible if QueueRouter.inadmissible_message returns a reason.
    """
    key = workload.key
    name = state.router.cluster_queue(workload, queue)
    message = state.router.inadmissible_message(workload, queue, state.pending_queues)
    if state.pending.get(key, name) != name or (message and key in state.pending):
        withdraw(state, key)
    state.inadmissible.pop(key, None)
    if message:
        state.inadmissible[key] = InadmissibleWorkload(workload, queue, message)
        return
    pending_queue = state.pending_queues[name]
    workload = state.router.with_default_walltime(workload, pending_queue.heap.spec)
    if (old := pending_queue.heap.get(key)) is not None:
        if same_state(old, workload):
            return
        if not same_requirements(old, workload):
            release_reservation(state, key)
        if old.priority != workload.priority:
            _forget_preemptions(state, key, name)
    state.pending[key] = name
    pending_queue.push_or_update(workload, state.now)
    pending_queue.drop_stale()
    note_begin_time(state, workload)
    state.active_queues[name] = None


def withdraw(state: PlannerState, key: str) -> None:
    """Remove a workload that is pending or inadmissible; raise KeyError if it is neither."""
    if state.inadmissible.pop(key, None) is not None:
        return
    queue = state.pending.pop(key)
    state.pending_queues[queue].heap.delete(key)
    state.begin_times.discard(key)
    state.unreserved.pop(key, None)
    release_reservation(state, key)
    _forget_preemptions(state, key, queue)


def update(state: PlannerState, workload: Workload) -> None:
    """Replace the state of a known workload; raise KeyError if it is unknown.

    A running workload keeps its admission from the planner. Its new state may have fewer pods (reclaimable pods, or a
    smaller placement), another priority, failed checks or unhealthy nodes, or be deactivated. If the new state has no
    admission, its eviction predates the planner's admission and is ignored.
    """
    run = state.running.get(workload.key)
    if run is None:
        inadmissible = state.inadmissible.get(workload.key)
        submit(state, workload, state.pending[workload.key] if inadmissible is None else inadmissible.queue)
        return
    old = run.workload
    new = state.router.with_default_walltime(workload, state.snapshot.cluster_queue_of(old).spec)
    eviction = None if workload.admission is None else workload.eviction
    admission = _with_smaller_placements(old.admission, workload.admission)
    new = replace(new, admission=admission, eviction=old.eviction or eviction)
    if not same_state(new, old):
        _replace_running(state, new)


def checks_passed(state: PlannerState, key: str, now: float) -> None:
    """Record that a workload has passed its admission checks and runs from now on, which sets its deadline.

    A later call replaces the time: the workload was placed after its checks. Raises KeyError if it has no quota.
    """
    workload = state.running[key].workload
    if workload.admission is not None and (workload.admission.pending_checks or workload.admission.admitted_at):
        admission = workload.admission._replace(pending_checks=(), admitted_at=now)
        _replace_running(state, replace(workload, admission=admission))


def confirm(state: PlannerState, key: str) -> None:
    """Record that the admission of a workload has been observed, so that the workload may be preempted.

    Raises KeyError if it is not running.
    """
    if state.assumed is not None:
        state.assumed.discard(key)
        state.freed_queues.update(state.cohort_index.queues_affected_by(state.running[key].workload))


def finish(state: PlannerState, key: str) -> None:
    """Remove a workload that has ended and has no pods left; raise KeyError if it is not running."""
    _remove_running(state, key)
    state.snapshot.preemption_graph.forget(key)


def end_replaced(state: PlannerState, workload: Workload) -> None:
    """Remove a running slice that another one replaces, which has taken its place in the snapshot."""
    _forget_running(state, workload.key)
    state.snapshot.preemption_graph.forget(workload.key)


def evict(state: PlannerState, key: str, eviction: Eviction) -> None:
    """Resubmit a running workload that has no pods left; raise KeyError if it is not running."""
    workload = _remove_running(state, key)
    queue = state.snapshot.cluster_queue_of(workload).name
    submit(state, replace(workload, admission=None, eviction=eviction, failed_checks=()), queue)


def forget(state: PlannerState, key: str) -> None:
    """Resubmit a workload whose admission was decided but not carried out; raise KeyError if it is not running.

    The workload keeps its earlier eviction.
    """
    was_assumed = state.assumed is not None and key in state.assumed
    workload = _remove_running(state, key)
    if state.fair_sharing is not None and was_assumed:
        state.fair_sharing.withdraw_charge(workload)
        state.fair_sharing.update_snapshot(state.snapshot, state.router, [workload.local_queue_key])
    queue = state.snapshot.cluster_queue_of(workload).name
    submit(state, replace(workload, admission=None), queue)


def adopt(state: PlannerState, workload: Workload) -> None:
    """Add a workload that runs under an admission by an earlier leader instead of this planner.

    The workload may be pending in this planner. Raises ValueError if it has no admission, is already running, or its
    ClusterQueue is unknown.
    """
    key, admission = workload.key, workload.admission
    if admission is None or key in state.running or admission.cluster_queue not in state.snapshot.cluster_queues:
        raise ValueError(f"{key}: not adopted: no admission, a second one, or an unknown ClusterQueue")
    if key in state.pending or key in state.inadmissible:
        withdraw(state, key)
    spec = state.snapshot.cluster_queue_of(workload).spec
    workload = with_required_checks(state.router.with_default_walltime(workload, spec), spec)
    state.snapshot.add_workload(workload)
    state.running_workloads.add(workload)
    review_running(state, workload)
    state.must_check_reservations = True


def reconfigure(
    state: PlannerState, configuration: QueueConfiguration, placements: TopologySnapshot | None = None
) -> None:
    """Replace queues, cohorts, flavors and LocalQueues, and the nodes if `placements` is given.

    Running workloads still count. Pending workloads keep their order, and their reservations if these are still
    feasible. `placements`: the new topologies, without workloads.
    """
    submitted = _submitted(state)
    state.router = QueueRouter(configuration.local_queues)
    running = _with_new_defaults(state, configuration)
    state.snapshot, state.removed_queues = rebuild_snapshot(state.snapshot, configuration, running, placements)
    state.configuration, state.cohort_index = configuration, CohortIndex(state.snapshot)
    state.pending_queues = {
        name: PendingQueue(node.spec, state.policy, state.settings)
        for name, node in state.snapshot.cluster_queues.items()
        if name not in state.removed_queues
    }
    state.pending, state.inadmissible, state.active_queues = {}, {}, {}
    state.begin_times, state.unreserved = BeginTimes(), {}
    for workload, queue in submitted:
        submit(state, workload, queue)
    for key, reservation in list(state.reservations.by_key.items()):
        if not is_still_pending(state, reservation.head):
            state.reservations.release(key)
    state.reservations.invalidate()
    for workload in running:
        review_running(state, workload)
    if state.fair_sharing is not None:
        state.fair_sharing.forget_deleted(state.router)
        state.fair_sharing.update_snapshot(state.snapshot, state.router)
    nodes_changed(state)


def change_local_queues(state: PlannerState, configuration: QueueConfiguration) -> bool:
    """Apply a configuration in which at most LocalQueues differ; return False if anything else differs.

    Workloads of the LocalQueues that differ are submitted again, or reviewed if they run.
    """
    if not _only_local_queues_change(state, configuration):
        return False
    router = QueueRouter(configuration.local_queues)
    old, new = state.router.local_queue_by_key or {}, router.local_queue_by_key or {}
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    state.router, state.configuration = router, configuration
    for workload, queue in _submitted(state):
        if workload.local_queue_key in changed:
            submit(state, workload, queue)
    for run in list(state.running_workloads):
        if run.workload.local_queue_key not in changed:
            continue
        workload = router.with_default_walltime(run.workload, state.snapshot.cluster_queue_of(run.workload).spec)
        if workload is run.workload:
            review_running(state, workload)
        else:
            _replace_running(state, workload)
    return True


def change_namespaces(state: PlannerState, changes: Mapping[str, Mapping[str, str] | None]) -> None:
    """Replace the labels of namespaces; None: the namespace was deleted.

    Queues whose namespace selector now decides otherwise look for a head again. Their workloads in these namespaces may
    be due again: one that was due while its namespace did not match is not due any more.
    """
    old = state.namespaces or {}
    new = {name: labels for name, labels in {**old, **changes}.items() if labels is not None}
    state.configuration = state.configuration._replace(namespaces=new)
    for name, queue in state.pending_queues.items():
        spec = queue.heap.spec
        affected = {
            namespace
            for namespace, labels in changes.items()
            if matches_namespace(spec, old.get(namespace) or {}) != matches_namespace(spec, labels or {})
        }
        if affected:
            state.freed_queues.add(name)
            queue.age_again(affected)


def nodes_changed(state: PlannerState) -> None:
    """Record that nodes or their available resources may have changed within the same topologies."""
    state.freed_queues.update(state.pending_queues)
    state.must_check_reservations = state.must_retry = True


def is_still_pending(state: PlannerState, head: Head) -> bool:
    """Return whether a reserved workload has the same requirements and is pending in the same, active queue.

    Before its begin time, the queue must also make advance reservations.
    """
    workload = state.pending_workload(head.workload.key)
    if workload is None or state.pending[workload.key] != head.cluster_queue:
        return False
    if workload.begin_at > state.now and not state.pending_queues[head.cluster_queue].heap.spec.advance_reservations:
        return False
    return head.cluster_queue not in state.snapshot.inactive and same_requirements(head.workload, workload)


def _submitted(state: PlannerState) -> list[tuple[Workload, str]]:
    """Return the pending and inadmissible workloads, each with the ClusterQueue to which submit() sends it again."""
    pending = ((state.pending_workload(key), queue) for key, queue in state.pending.items())
    submitted = [(workload, queue) for workload, queue in pending if workload is not None]
    return submitted + [(entry.workload, entry.queue) for entry in state.inadmissible.values()]


def _only_local_queues_change(state: PlannerState, configuration: QueueConfiguration) -> bool:
    """Return whether nothing else differs. With admission fair sharing, LocalQueues change the order of others."""
    old = state.configuration
    specs = tuple(node.spec for node in state.snapshot.cluster_queues.values())
    return (
        state.fair_sharing is None
        and None not in (old.local_queues, configuration.local_queues)
        and old._replace(local_queues=configuration.local_queues) == configuration
        and specs == configuration.cluster_queues
    )


def _with_smaller_placements(admission: Admission | None, observed: Admission | None) -> Admission | None:
    """Return an admission without the places that an elastic job has given up since."""
    if admission is None or observed is None:
        return admission
    placements = {pod_set.name: pod_set.topology_assignment for pod_set in observed.pod_sets}
    pod_sets = tuple(
        pod_set._replace(topology_assignment=placements[pod_set.name])
        if _is_part(placements.get(pod_set.name), pod_set.topology_assignment)
        else pod_set
        for pod_set in admission.pod_sets
    )
    return admission._replace(pod_sets=pod_sets)


def _is_part(part: TopologyAssignment | None, whole: TopologyAssignment | None) -> bool:
    """Return whether an assignment consists of some of the pods of another one, but not of all."""
    if part is None or whole is None or part == whole or part.levels != whole.levels:
        return False
    pods = dict(whole.domains)
    return all(domain.pods <= pods.get(domain.values, 0) for domain in part.domains)


def _with_new_defaults(state: PlannerState, configuration: QueueConfiguration) -> list[Workload]:
    """Apply the default walltimes of a new configuration to the running workloads; return all of them."""
    specs = {spec.name: spec for spec in configuration.cluster_queues}
    for run in list(state.running_workloads):
        queue = state.snapshot.cluster_queue_of(run.workload)
        workload = state.router.with_default_walltime(run.workload, specs.get(queue.name, queue.spec))
        if workload is not run.workload:
            state.running_workloads.update(workload)
    return [run.workload for run in state.running_workloads]


def _forget_preemptions(state: PlannerState, key: str, queue: str) -> None:
    """Forget which workloads a pending workload has preempted, and which have preempted it.

    Either may have prevented other workloads from preempting.
    """
    if state.snapshot.preemption_graph.forget(key):
        state.freed_queues.update(state.cohort_index.queues_sharing_quota(queue))


def _remove_running(state: PlannerState, key: str) -> Workload:
    workload = _forget_running(state, key)
    state.snapshot.remove_workload(workload)
    state.reservations.workload_ended(workload)
    return workload


def _forget_running(state: PlannerState, key: str) -> Workload:
    """Remove a running workload from the state, except from the snapshot and the futures of reservations."""
    confirm(state, key)
    workload = state.running_workloads.remove(key).workload
    state.young.pop(key, None)
    state.freed_queues.update(state.cohort_index.queues_affected_by(workload))
    return workload


def _replace_running(state: PlannerState, workload: Workload) -> None:
    old = state.running[workload.key].workload
    state.freed_queues.update(state.cohort_index.queues_affected_by(old))
    if old.priority != workload.priority:
        state.snapshot.preemption_graph.forget(workload.key)
    state.snapshot.remove_workload(old)
    state.snapshot.add_workload(workload)
    state.running_workloads.update(workload)
    review_running(state, workload)
    state.must_check_reservations = True
