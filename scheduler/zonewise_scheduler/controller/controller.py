"""The live queue without I/O: it takes observed objects and outcomes of writes, and returns writes.

A step does the following, in this order:

1. Changed queues are fed to the planner.
2. Changed Workloads are fed to the planner (planning/workload_sync.py), then nodes and pods.
3. A scheduling pass decides, if anything has changed or a reserved start is due.
4. Each job, Workload and pod that has changed, or that the pass has decided about, gets its next write (reconcile/).

At most one write per object is pending. A replica that does not lead performs only steps 1 and 2.
"""

from __future__ import annotations

import logging
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.resources import ADMISSION_CHECKS, PODS, RESOURCE_SLICES, WORKLOADS
from zonewise_scheduler.controller.accounting.ended_runs import EndedRuns
from zonewise_scheduler.controller.admissionchecks.provisioning_reconciler import WATCHED as PROVISIONING_KINDS
from zonewise_scheduler.controller.admissionchecks.provisioning_reconciler import ProvisioningReconciler
from zonewise_scheduler.controller.cluster_cache import ObjectCache, WorkloadIndex, object_version
from zonewise_scheduler.controller.managed_namespaces import is_managed
from zonewise_scheduler.controller.nodes.node_view import NodeView
from zonewise_scheduler.controller.planning.active_jobs import ActiveJobs
from zonewise_scheduler.controller.planning.pending_checks import keys_with_pending_checks
from zonewise_scheduler.controller.planning.restarted_queues import keys_after_stops
from zonewise_scheduler.controller.planning.workload_planner import WorkloadPlanner
from zonewise_scheduler.controller.pods.pod_binder import BIND
from zonewise_scheduler.controller.pods.pod_context import PodContext
from zonewise_scheduler.controller.pods.pod_reconciler import PodReconciler
from zonewise_scheduler.controller.pods.stray_pods import END_STRAY
from zonewise_scheduler.controller.pods.ungate import UNGATE
from zonewise_scheduler.controller.reconcile.job import JobContext
from zonewise_scheduler.controller.reconcile.job_reconciler import JobReconciler
from zonewise_scheduler.controller.reconcile.plain_pods_reconciler import PlainPodsReconciler
from zonewise_scheduler.controller.reconcile.workload import workload_key
from zonewise_scheduler.controller.reconcile.workload_reconciler import WorkloadReconciler
from zonewise_scheduler.controller.slice_pods import SlicePods
from zonewise_scheduler.controller.types import ObjectKey, Verb
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, is_orphaned
from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits
from zonewise_scheduler.controller.writing.write_gate import WriteGate
from zonewise_scheduler.controller.writing.write_log import WriteLog
from zonewise_scheduler.quota.api.job_priority import PriorityClasses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zonewise_common.k8s.labels import Requirement
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.accounting.run_record import RunRecord
    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.nodes.node_view import NodeRevisions
    from zonewise_scheduler.controller.nodes.types import TrackedNode, TrackedPod, TrackedReport
    from zonewise_scheduler.controller.observed_pod import WatchedPod
    from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
    from zonewise_scheduler.controller.pods.pod_rejections import PodRejection
    from zonewise_scheduler.controller.types import Json, Write
    from zonewise_scheduler.controller.writing.outcome import Outcome
    from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim
    from zonewise_scheduler.nodes.devices.resource_slices import ResourceSlice

log = logging.getLogger(__name__)


class ControllerOptions(NamedTuple):
    """Options for decisions and writes."""

    max_assumed: int = 100
    """Maximum number of admissions that are decided but not written: as many as can be written in a second or two."""
    readiness: ReadinessLimits = ReadinessLimits()
    retention: float = 0.0
    """Seconds for which finished Workloads are kept; 0: as long as their jobs."""
    managed_namespaces: tuple[Requirement, ...] = ()
    """Requirements on the labels of namespaces whose jobs are queued; empty: those of all."""


class QueueController:
    """Performs the steps of the live queue. See the module docstring."""

    def __init__(
        self,
        feed: PlannerFeed,
        adapters: Mapping[tuple[str, str], JobAdapter],
        configuration: ConfigurationObjects,
        options: ControllerOptions = ControllerOptions(),  # noqa: B008 -- immutable
        run_pass: Callable[[PlannerFeed, float, int], Plan] = lambda feed, at, most: feed.run_pass(at, most),
    ) -> None:
        """Set the adapters by API group and kind. `run_pass` may also measure the passes."""
        self.configuration = configuration
        self.feed = feed
        self.wake_at = inf
        self._objects = ObjectCache()
        self._workloads = WorkloadIndex()
        self._gate = WriteGate()
        self._rejections = WriteLog(logging.ERROR, "rejected")
        self._leads = False
        self._now = 0.0
        self._classes = PriorityClasses()
        """The classes that the last step knew."""
        self._flavors: Mapping[str, Json] = {}
        """The ResourceFlavors that the last step knew, by name."""
        self._nodes = NodeView()
        self._pods = PodReconciler()
        self._slice_pods = SlicePods()
        by_key, find = self._workloads.by_key, self._objects.get
        tracker = self._nodes.tracker
        self._managed_namespaces = options.managed_namespaces
        self._jobs = JobReconciler(adapters, find, self._workloads, tracker.active_pods, self.manages)
        self._active_jobs = ActiveJobs(find, self._jobs.by_uid, adapters, tracker, self._pods.of_workload)
        self._planner = WorkloadPlanner(
            feed,
            by_key,
            self._nodes,
            run_pass,
            options.max_assumed,
            self._active_jobs,
            configuration.is_deleted,
            lambda: configuration.pod_defaults,
        )
        self._plain_pods = PlainPodsReconciler(find, self._workloads)
        self._workload_reconciler = WorkloadReconciler(
            by_key,
            self._planner,
            self._pods.rejections,
            options.readiness,
            self._gate.is_in_flight,
            self._active_jobs.is_active,
            options.retention,
        )
        self._provisioning = ProvisioningReconciler(by_key, configuration)
        self._ended_runs = EndedRuns()

    # --- inputs

    def lead(self, leads: bool, checkpoint: Checkpoint | None = None) -> None:
        """Start or stop leading. Decisions that are not written are forgotten.

        `checkpoint`: the reservations and usage of the last leader; None: unknown.
        """
        self._leads = leads
        self._planner.restart(checkpoint)
        self._ended_runs.lead(leads, self._workloads.by_key.values(), self._now)
        if leads:
            self._gate.end_all_pauses()
            self._pods.mark_dirty(self._workloads.by_key)
            self._workload_reconciler.mark(self._workloads.by_key)
            self._provisioning.restart()
            self._jobs.mark_all()

    def observe(self, key: ObjectKey, obj: Json | None, now: float) -> None:
        """Record an object from a watch, of a kind that the methods below do not cover; None: it was deleted."""
        if self.configuration.observe(key, obj):
            return
        old = self._objects.get(key)
        if self._objects.observe(key, obj, now):
            self._changed(key, old, obj, now)

    def end_listing(self, resource: Resource, version: int, now: float) -> None:
        """Record that all objects of a kind which existed at a resource version have been observed."""
        self.configuration.end_listing(resource)
        if resource == RESOURCE_SLICES:
            self._nodes.end_slice_listing()
        is_first = not self._objects.has_listed(resource)
        for key in self._objects.unlisted(resource, version):
            self.observe(key, None, now)
        for key in self._gate.end_pauses_of(resource) if is_first else ():
            self._mark_written(key)

    def manages(self, namespace: str) -> bool:
        """Return whether the jobs of a namespace are queued. Several threads call it."""
        return is_managed(namespace, self._managed_namespaces, self.configuration.find)

    def find_job(self, uid: str) -> Json | None:
        """Return the observed job with a UID; None: there is none. Several threads call it."""
        return self._jobs.find_by_uid(uid)

    def find_workload(self, name: str) -> Json | None:
        """Return the observed Workload with a namespace and name. Several threads call it."""
        return self._workloads.by_key.get(name)

    def observe_node(self, name: str, node: TrackedNode | None) -> None:
        """Record a Node; None: it was deleted."""
        self._nodes.observe_node(name, node)

    def observe_report(self, node: str, report: TrackedReport | None) -> None:
        """Record a NodeResourceTopology; None: it was deleted."""
        self._nodes.tracker.observe_report(node, report)

    def observe_slice(self, name: str, new: ResourceSlice | None) -> None:
        """Record a ResourceSlice; None: it was deleted."""
        self._nodes.observe_slice(name, new)

    def observe_claim(self, namespace: str, name: str, claim: AllocatedClaim | None) -> None:
        """Record a ResourceClaim; None: it was deleted."""
        self._nodes.observe_claim(namespace, name, claim)
        self.configuration.observe_claim(namespace, name, claim)

    def observe_pod(self, namespace: str, name: str, pod: WatchedPod | None) -> None:
        """Record a pod; None: it was deleted."""
        self._observe_pod(namespace, name, self._slice_pods.observe_pod(namespace, name, pod))

    def _observe_pod(self, namespace: str, name: str, pod: WatchedPod | None) -> None:
        before = self._nodes.observe_pod(namespace, name, None if pod is None else pod.tracked)
        tracked = before if pod is None else pod.tracked  # a deleted pod may be the last one for which its job waits
        is_rejected = self._pods.observe(namespace, name, None if pod is None else pod.managed)
        self._pods.binder.set_terms(f"{namespace}/{name}", () if pod is None else pod.anti_affinity)
        if tracked is not None and tracked.workload:
            workload = workload_key(tracked.workload)
            observed = self._objects.get(workload)
            self._mark_owners_dirty(workload, observed)
            if is_rejected or (observed is not None and is_orphaned(observed)):
                self._workload_reconciler.mark([tracked.workload])
            if self._may_change_quota(tracked):
                self._planner.change(tracked.workload)
        key = ObjectKey(PODS, namespace, name)
        queued = None if pod is None else pod.queued
        if queued is not None or self._objects.get(key) is not None:
            self.observe(key, queued, self._now)

    def _may_change_quota(self, pod: TrackedPod) -> bool:
        """Return whether the planner must check the Workload of a pod again.

        A bound pod may belong to a lost Workload. A running Workload without active pods may be done.
        """
        if pod.workload in self.feed.state.running:
            return not self._nodes.tracker.active_pods(pod.workload)
        return pod.requests is not None

    def end_write(self, write: Write, outcome: Outcome, now: float) -> None:
        """Record the outcome of a write."""
        version = self._gate.end(write)
        if outcome.result == "rejected":
            self._rejections.add(write, outcome.message)
        if write.purpose in {UNGATE, BIND, END_STRAY}:
            self._pods.end_write(write, now, done=outcome.result == "done")
            self._mark_dirty(write.key)  # a stop may have waited for the end of this write
            return
        self._provisioning.end_write(write, outcome)
        old = self._observed(write.key)
        if outcome.result == "done" and write.verb is not Verb.DELETE:
            if outcome.obj is not None and self.configuration.written(write.key, outcome.obj):
                return
            if outcome.obj is not None and self._objects.written(write.key, outcome.obj, now):
                self._changed(write.key, old, outcome.obj, now)
        elif old is not None or write.verb is Verb.CREATE:  # a deleted object may be created again at once
            self._gate.pause(write, version, now)
        self._mark_written(write.key)
        if write.workload:
            self._provisioning.mark_workloads([write.workload])
            self._workload_reconciler.mark([write.workload])

    def step(self, now: float) -> list[Write]:
        """Decide, and return the resulting writes. Sets wake_at, the time of the next step if nothing changes."""
        self._now = now
        for key in self._gate.end_pauses(now):
            self._mark_written(key)
        if self.configuration.feed(self.feed):
            self._jobs.mark_unmanaged()
            self._planner.note_configuration()
            self._workload_reconciler.mark(keys_with_pending_checks(self.feed.state))
            self._workload_reconciler.mark(keys_after_stops(self.feed.state))
            self._pods.binder.mark_all()
        self._note_references()
        self._nodes.set_device_resources(self.configuration.device_resources)
        if self.configuration.feed_namespaces(self.feed):
            self._jobs.mark_unmanaged()
            self._planner.note_change()
        self._pods.mark_nodes(self._nodes.take_changed(now), now)
        self._workload_reconciler.mark(self._planner.sync(now))
        if self._nodes.feed(self.feed):
            self._planner.note_change()
        writes: list[Write] = []
        if self._leads:
            self._workload_reconciler.set_class_values(self.configuration.priority_classes.workload)
            self._workload_reconciler.set_unhealthy_nodes(self._nodes.unhealthy_nodes(self.feed, now))
            self._workload_reconciler.mark(self._planner.decide(now))
            writes = self._next_writes(now)
        else:
            for reconciler in (self._jobs, self._workload_reconciler, self._provisioning, self._pods):
                reconciler.forget_marks()
        self.wake_at = self._next_wake()
        return writes

    def _next_wake(self) -> float:
        """Return when the next step is due if nothing changes. The end of a write counts as a change."""
        due = [self._planner.wake_at(self._now, leads=self._leads), self._gate.pause_ends_at]
        if self._leads:
            due += [self._workload_reconciler.limit_at, self._nodes.check_at, self._plain_pods.index.recheck_at]
            due.append(self._pods.retry_at)
        return min(due)

    # --- caches

    def _note_references(self) -> None:
        """Check the jobs that may wait for a class or flavor: those that are invalid, or name a new class."""
        configuration, previous = self.configuration, self._classes
        classes, flavors = configuration.priority_classes, configuration.flavors
        if classes is previous and flavors is self._flavors:
            return
        self._classes, self._flavors = classes, flavors
        for key in (*self._jobs.invalid, *self._plain_pods.invalid):
            self._mark_dirty(key)
        self._jobs.mark_class(classes.workload.keys() - previous.workload.keys())

    def _changed(self, key: ObjectKey, old: Json | None, new: Json | None, now: float) -> None:
        if key.resource == WORKLOADS:
            name = key.namespaced_name
            self._workloads.set(name, new)
            self._ended_runs.observe(old, new, now)
            self._active_jobs.set_owner(name, new)
            self._planner.change(name)
            self._pods.mark_dirty([name])
            for pod, moved in self._slice_pods.observe_workload(name, new):
                self._observe_pod(*pod, moved)
            if old is not None:
                self._mark_owners_dirty(key, old)
        elif key.resource == PODS:
            if new is None:
                self._plain_pods.forget(key)
            group = self._plain_pods.index.observe(key.namespace, key.name, new)
            if group is not None:
                self._jobs.mark(group)
        elif key.resource in PROVISIONING_KINDS:
            self._provisioning.observe(key, new)
            return
        else:
            if new is None:
                self._plain_pods.forget(key)
            self._jobs.change(key, old, new)
            lost = self._active_jobs.set_job(key, new)
            if lost and lost not in self.feed.state.running and self._active_jobs.is_active(lost):
                self._planner.change(lost)
        self._mark_dirty(key)

    def _mark_dirty(self, key: ObjectKey) -> None:
        """Check an object, and the jobs of a Workload, for next writes."""
        if key.resource == WORKLOADS:
            self._workload_reconciler.mark([key.namespaced_name])
            self._provisioning.mark_workloads([key.namespaced_name])
            self._mark_owners_dirty(key, self._workloads.by_key.get(key.namespaced_name))
        elif key.resource == PODS:
            self._plain_pods.index.mark_pod(key.namespace, key.name)
        elif key.resource in PROVISIONING_KINDS or key.resource == ADMISSION_CHECKS:
            self._provisioning.mark_dirty(key)
        else:
            self._jobs.mark(key)
            self._plain_pods.index.mark_owner(key)

    def _mark_written(self, key: ObjectKey) -> None:
        """Check an object that may be written again, and the job that had a write for it: the object may not exist."""
        self._mark_dirty(key)
        self._jobs.mark_writer(key)

    def _mark_owners_dirty(self, key: ObjectKey, workload: Json | None) -> None:
        """Check the jobs of a Workload for next writes; None: it does not exist, and a pod group may need it."""
        self._plain_pods.mark_workload(key, workload)
        if workload is not None:
            self._jobs.mark_owner(workload)

    # --- writes

    def _next_writes(self, now: float) -> list[Write]:
        """Return the next writes of all objects. Each is claimed, so none of them may be lost."""
        context = self._job_context()
        writes: list[Write] = []
        for part in (
            filter(self.claim, self._jobs.writes(context)),
            filter(self.claim, self._plain_pods.writes(context)),
            filter(self.claim, self._workload_reconciler.writes(now)),
            filter(self.claim, self._provisioning.writes(now)),
            self._pod_writes(),
        ):
            try:
                writes.extend(part)  # results from before an error are kept
            except Exception:  # a defect in one part must not block the writes of the others
                log.exception("a part of a step failed")
        return writes

    def _job_context(self) -> JobContext:
        configuration = self.configuration
        options = ManifestOptions(configuration.priority_classes)
        return JobContext(options, configuration.flavors, self._now, configuration.find)

    def _pod_writes(self) -> Iterator[Write]:
        nodes, workloads = self._nodes, self._workloads.by_key
        context = PodContext(
            workloads,
            nodes.names_by_hostname,
            self.feed.predicted_admissions,
            self.feed.admits_next,
            self._now,
            self.configuration.find,
            nodes.node_info,
            partial(nodes.avoids, self.feed),
            partial(nodes.is_closed, self.feed, self._now),
        )
        writes = self._pods.writes(context)
        for workload, node in self._pods.take_avoided():
            nodes.avoid(workload, node)
        self._gate.claim_all(writes)
        yield from writes
        yield from self._pods.binder.writes(context, self.claim)

    # --- state for reports

    @property
    def leads(self) -> bool:
        """Return whether this replica leads."""
        return self._leads

    @property
    def in_flight(self) -> int:
        """Return the number of pending writes."""
        return len(self._gate)

    @property
    def assumed(self) -> int:
        """Return the number of decisions that no object shows yet."""
        return self._planner.assumed

    @property
    def invalid(self) -> dict[ObjectKey, str]:
        """Return the jobs and Workloads that cannot be read, each with the field and its problem."""
        workloads = {workload_key(name): problem for name, problem in self._planner.invalid.items()}
        return {**self._jobs.invalid, **self._plain_pods.invalid, **workloads}

    @property
    def not_queued(self) -> Mapping[ObjectKey, str]:
        """Return the Jobs that wait for other Jobs, and the pod groups that lack pods, each with the reason."""
        return {**self._jobs.waiting_for_jobs, **self._plain_pods.waiting}

    @property
    def invalid_workloads(self) -> Mapping[str, str]:
        """Return the Workloads missing in the planner, by namespace and name, each with the field and its problem."""
        return self._planner.invalid

    def take_ended_runs(self) -> list[RunRecord]:
        """Return the records of the runs that have ended since the last call; none while this replica does not lead."""
        return self._ended_runs.take()

    def take_rejections(self) -> list[PodRejection]:
        """Return the pods that kubelets have rejected since the last call."""
        return self._pods.rejections.take_new()

    @property
    def pods_left(self) -> dict[str, int]:
        """Return by reason the number of pods left to kube-scheduler although their queues request binding."""
        return dict(self._pods.binder.left)

    def nodes_revised_since(self, revision: int) -> NodeRevisions:
        """Return the nodes that have changed since a revision; 0: since the start."""
        return self._nodes.revised_since(revision)

    @property
    def workloads(self) -> Mapping[str, Json]:
        """Return the observed Workloads by namespace and name."""
        return self._workloads.by_key

    def object(self, key: ObjectKey) -> Json | None:
        """Return a job or Workload as last observed; None: it is unknown."""
        return self._objects.get(key)

    def workload(self, name: str) -> Json | None:
        """Return a Workload by its namespace and name; None: it is unknown."""
        return self._workloads.by_key.get(name)

    def claim(self, write: Write) -> bool:
        """Record that a write is pending. Return False if another write of the object is, or the object is paused."""
        return self._gate.claim(write, _version(self._observed(write.key)), self._now)

    def abandon(self, write: Write) -> None:
        """Record that a claimed write has failed and that nothing depends on it."""
        self._gate.end(write)
        self._mark_dirty(write.key)

    def _observed(self, key: ObjectKey) -> Json | None:
        return self.configuration.find(*key) if key.resource == ADMISSION_CHECKS else self._objects.get(key)


def _version(obj: Json | None) -> int:
    return 0 if obj is None else object_version(obj)
