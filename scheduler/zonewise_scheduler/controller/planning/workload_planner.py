"""The planner's decisions about Workloads: observed states are fed in, and intents to write are returned.

A decision is an intent until its Workload shows it. The planner counts it at once, so the workload is assumed. The
decision is withdrawn if it can no longer be written: the Workload was changed or deleted, or this replica does not
lead.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.cluster_cache import uid_of, workload_owner_uid
from zonewise_scheduler.controller.jobs.job_fields import annotations_of
from zonewise_scheduler.controller.planning.eviction_messages import preemption_message
from zonewise_scheduler.controller.planning.intents import AdmitIntent, EvictIntent, intents_of
from zonewise_scheduler.controller.planning.lost_workload import quota_problem
from zonewise_scheduler.controller.planning.timers import Timers
from zonewise_scheduler.controller.planning.workload_sync import remove_workload, sync_workload
from zonewise_scheduler.controller.reverse_index import ReverseIndex
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.manifest import JOB_UID_LABEL
from zonewise_scheduler.controller.workloads.status import has_quota
from zonewise_scheduler.quota.api.pod_defaults import (
    NO_POD_DEFAULTS,
    changed_namespaces,
    check_pods,
    with_pod_defaults,
)
from zonewise_scheduler.quota.api.workload_slices import REPLACEMENT_ANNOTATION, replaced_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint
    from zonewise_scheduler.backfill.types import Plan, Victim
    from zonewise_scheduler.controller.nodes.node_view import NodeView
    from zonewise_scheduler.controller.planning.active_jobs import ActiveJobs
    from zonewise_scheduler.controller.planning.intents import Intent
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_defaults import PodDefaults

log = logging.getLogger(__name__)

_RETRY_AFTER = 10.0
"""Seconds until a Workload that could not be fed to the planner is fed again."""


class WorkloadPlanner:
    """Feeds Workloads to the planner, and keeps its intents. See the module docstring."""

    def __init__(
        self,
        feed: PlannerFeed,
        workloads: Mapping[str, Json],
        nodes: NodeView,
        run_pass: Callable[[PlannerFeed, float, int], Plan],
        max_assumed: int,
        jobs: ActiveJobs,
        is_namespace_deleted: Callable[[str], bool] = lambda _namespace: False,
        pod_defaults: Callable[[], PodDefaults] = lambda: NO_POD_DEFAULTS,
    ) -> None:
        """Plan `workloads`, which maps the key (namespace/name) of each to its newest state.

        `max_assumed`: maximum number of decisions that no object shows yet. `jobs`: while they are active, quota is
        held. `is_namespace_deleted` returns whether a namespace is being deleted. `pod_defaults` returns the defaults
        that the API server adds to pods; each change replaces the value.
        """
        self.feed = feed
        self.invalid: dict[str, str] = {}
        """Workloads that cannot be read, by key: the field and its problem."""
        self._workloads = workloads
        self._nodes = nodes
        self._run_pass = run_pass
        self._max_assumed = max_assumed
        self._jobs = jobs
        self._is_namespace_deleted = is_namespace_deleted
        self._pod_defaults = pod_defaults
        self._known_defaults = pod_defaults()
        self._stopping: dict[str, None] = {}
        """Workloads whose objects have lost their quota, while their pods are active."""
        self._restored: dict[str, int] = {}
        """Lost Workloads that were restored, with the number of active pods at that time."""
        self._intents: dict[str, Intent] = {}
        self._unsynced: dict[str, None] = {}
        """Workloads that the planner must be fed."""
        self._replaced: ReverseIndex[str, str] = ReverseIndex()
        """The slice that each slice of an elastic job replaces, by key."""
        self._holds = Timers()
        """When each Workload on hold becomes pending, or when a Workload that could not be fed is fed again."""
        self._checkpoint: Checkpoint | None = None
        """Checkpoint to restore once the planner knows the Workloads."""
        self._pass_due_at = -inf

    # --- inputs

    def change(self, key: str) -> None:
        """Record that a Workload has changed."""
        self._unsynced[key] = None
        obj = self._workloads.get(key)
        if obj is not None:
            replaced = replaced_key(key.partition("/")[0], annotations_of(obj))
            self._replaced.change(key, (replaced,) if replaced else ())

    def restart(self, checkpoint: Checkpoint | None) -> None:
        """Forget all intents. The next step restores reservations and usage from the checkpoint, if there is one."""
        self._checkpoint = checkpoint
        self._pass_due_at = -inf
        for key in list(self._intents):
            self._drop_intent(key)

    def note_change(self) -> None:
        """Record that queues or nodes have changed in the planner."""
        self._pass_due_at = -inf

    def note_configuration(self) -> None:
        """Record that queues have changed, so that a Workload that was invalid may now be valid."""
        self.note_change()
        self._unsynced.update(dict.fromkeys(self.invalid))

    def sync(self, now: float) -> list[str]:
        """Feed the planner each changed Workload, and return those whose hold has ended."""
        self._note_pod_defaults()
        due = self._holds.pop_due(now)
        unsynced, self._unsynced = self._unsynced, {}
        keys = list(dict.fromkeys([*due, *unsynced, *self._stopping]))
        keys.sort(key=lambda key: not _uses_quota(self._workloads.get(key)))  # lost Workloads get what the others leave
        for key in keys:
            replaced = self._replaced.targets(key)
            self._try_sync(key, now)
            for slice_key in replaced:  # it holds its quota again if this slice has lost its own
                self._try_sync(slice_key, now)
        if self._checkpoint is not None:
            checkpoint, self._checkpoint = self._checkpoint, None
            self.feed.restore(checkpoint, now)
        return due

    def _try_sync(self, key: str, now: float) -> None:
        try:
            self._sync(key, now)
        except Exception:  # a defect with one Workload must not keep the planner from the others
            log.exception("workload=%s: the planner does not have its newest state", key)
            self._holds.set(key, now + _RETRY_AFTER)

    def _note_pod_defaults(self) -> None:
        """Complete pending Workloads again if the API server's pod defaults have changed."""
        defaults, state = self._pod_defaults(), self.feed.state
        if defaults is self._known_defaults:
            return
        concerns = changed_namespaces(self._known_defaults, defaults)
        self._known_defaults = defaults
        pending = (*state.pending, *state.inadmissible, *self.invalid)
        self._unsynced.update((key, None) for key in pending if concerns(key.partition("/")[0]))

    def _sync(self, key: str, now: float) -> None:
        self._holds.set(key, None)
        self.invalid.pop(key, None)
        obj = self._workloads.get(key)
        if obj is None:
            self._replaced.change(key, ())
        if self._is_replaced(key):
            self._intents.pop(key, None)
            self._stopping.pop(key, None)
            self._remove(key)
            return
        self._restore_lost(key, obj)
        if self._holds_quota(key, obj):
            self._intents.pop(key, None)
            self._stopping[key] = None
            return
        self._stopping.pop(key, None)
        if obj is None:
            self._jobs.forget(key)
        self._forget_outdated(key, obj)
        if _uses_quota(obj) and key not in self._intents and self._jobs.is_done(key):
            obj = None  # its job will end in a second, and none of its pods run
        try:
            hold = sync_workload(self.feed, key, self._completed(key, obj), now, assumed=self._is_assumed(key))
        except ValueError as error:  # FieldError, InvalidWorkload, or quota in a ClusterQueue that does not exist
            log.warning("workload=%s invalid: %s", key, error)
            self.invalid[key] = str(error)
            remove_workload(self.feed, key)
            return
        self._holds.set(key, hold)
        self._note_placement(key)
        self._pass_due_at = -inf

    def _without_replacement(self, key: str, obj: Json) -> Json:
        """Return a Workload that replaces no other one, unless both belong to the same job."""
        if all(self._have_same_job(key, other) for other in self._replaced.targets(key)):
            return obj
        annotations = {name: text for name, text in annotations_of(obj).items() if name != REPLACEMENT_ANNOTATION}
        return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}

    def _is_replaced(self, key: str) -> bool:
        """Return whether another slice of its job has its quota in place of this one, or is about to get it."""
        running = self.feed.state.running
        return any(
            (new in running or _uses_quota(self._workloads.get(new))) and self._have_same_job(new, key)
            for new in self._replaced.sources(key)
        )

    def _have_same_job(self, key: str, other: str) -> bool:
        """Return whether one job owns two Workloads. Only then may one get the quota of the other."""
        pair = self._workloads.get(key), self._workloads.get(other)
        owners = {"" if obj is None else workload_owner_uid(obj) for obj in pair}
        return len(owners) == 1 and "" not in owners

    def _remove(self, key: str) -> None:
        remove_workload(self.feed, key)
        self._note_placement(key)
        self._pass_due_at = -inf

    def _completed(self, key: str, obj: Json | None) -> Json | None:
        """Return a Workload as its pods will be; None: it has ended. Raise FieldError if its pods would be rejected."""
        if obj is None or is_true(obj, "Finished"):
            return None
        obj = self._without_replacement(key, obj)
        completed = with_pod_defaults(obj, self._known_defaults)
        if not has_quota(obj) and key not in self.feed.state.running:
            counts_devices = self.feed.state.settings.resources.counts_devices
            check_pods(completed, self._known_defaults, counts_devices=counts_devices)
        return completed

    def _restore_lost(self, key: str, obj: Json | None) -> None:
        """Feed the planner the lost Workload of active pods, for which an earlier leader held quota without an object.

        Once one of the pods has ended, the others are counted again.
        """
        state, pods = self.feed.state, self._jobs.active_pods(key)
        if key in state.running and not _uses_quota(obj) and self._restored.get(key, pods) == pods:
            return
        self._restored.pop(key, None)
        if _uses_quota(obj):
            return
        if key in state.running:
            self.feed.finish(key)
        flavors, resources = state.snapshot.resource_flavors or {}, state.settings.resources
        lost = self._jobs.lost_workload(key, flavors, self._known_defaults, resources)
        if lost is None:
            return
        is_deleted = self._is_namespace_deleted(lost["metadata"]["namespace"])
        if problem := quota_problem(lost, state, is_namespace_deleted=is_deleted):
            log.info("workload=%s is lost, and holds no quota: %s", key, problem)
            return
        self.feed.adopt(lost)
        self._restored[key] = pods
        self._note_placement(key)

    def _holds_quota(self, key: str, obj: Json | None) -> bool:
        """Return whether the object of a workload shows no quota although its pods are active."""
        if key not in self.feed.state.running or self._is_assumed(key):
            return False
        return not _uses_quota(obj) and self._jobs.is_active(key)

    # --- outputs

    @property
    def assumed(self) -> int:
        """Return the number of decisions that no object shows yet."""
        return len(self._intents)

    def intent(self, key: str) -> Intent | None:
        """Return the decision about a Workload that its object does not show yet; None: there is none."""
        return self._intents.get(key)

    def wake_at(self, now: float, *, leads: bool) -> float:
        """Return when the next step is due if nothing changes."""
        if self._unsynced:
            return now
        return min(self._holds.next_at, self._pass_due_at if leads and self._allowance() > 0 else inf)

    def decide(self, now: float) -> Iterable[str]:
        """Run a pass if it is due, and return the Workloads about which it has decided."""
        allowance = self._allowance()
        if self._pass_due_at > now or allowance <= 0:
            return ()
        plan = self._run_pass(self.feed, now, allowance)
        self._pass_due_at = -inf if len(plan.admitted) >= allowance else plan.wake_at
        decided: list[str] = []
        for key, intent in intents_of(plan, self._explain_preemption):
            obj = self._workloads.get(key)
            if obj is not None:
                admits = isinstance(intent, AdmitIntent)
                self._intents[key] = intent._replace(generation=_generation(obj)) if admits else intent
                decided.append(key)
                self._note_placement(key)
                for replaced in self._replaced.targets(key):
                    self._note_placement(replaced)
        return decided

    def end_intent(self, key: str, obj: Json) -> None:
        """Drop the intent that an object shows.

        An eviction needs no write if the admission was never written: the planner then forgets the workload.
        """
        intent = self._intents.pop(key, None)
        lost = isinstance(intent, EvictIntent) and key in self.feed.state.running and not has_quota(obj)
        if lost and not self._holds_quota(key, obj):
            self.feed.forget(key)
            self._unsynced[key] = None

    # --- intents

    def _explain_preemption(self, victim: Victim) -> str:
        key, state = victim.preemptor.key, self.feed.state
        labels = FieldReader(self._workloads.get(key) or {}, "", []).child("metadata").pairs("labels")
        job_uid = labels.get(JOB_UID_LABEL, "")
        return preemption_message(victim, job_uid, state.pending.get(key, ""), state.snapshot.cluster_queues)

    def _allowance(self) -> int:
        """Return how many more admissions may be decided before earlier ones are written."""
        return self._max_assumed - len(self._intents)

    def _is_assumed(self, key: str) -> bool:
        intent = self._intents.get(key)
        return isinstance(intent, AdmitIntent) and not intent.has_quota

    def _forget_outdated(self, key: str, obj: Json | None) -> None:
        """Drop a workload's intent if its object was deleted, or its requirements have changed since the admission.

        Other changes do not affect an eviction: the planner counts the workload as stopping, and reports it once.
        """
        intent = self._intents.get(key)
        if intent is None:
            return
        run = self.feed.state.running.get(key)
        if (
            obj is None
            or (run is not None and run.workload.uid != uid_of(obj))
            or (isinstance(intent, AdmitIntent) and _generation(obj) != intent.generation)
        ):
            self._drop_intent(key)

    def _drop_intent(self, key: str) -> None:
        """Withdraw a decision. If the object of the workload shows quota, it is added to the planner again."""
        assumed = self._is_assumed(key)
        del self._intents[key]
        if key in self.feed.state.running:
            (self.feed.forget if assumed else self.feed.finish)(key)
            self._unsynced[key] = None

    def _note_placement(self, key: str) -> None:
        run = self.feed.state.running.get(key)
        self._nodes.set_placement(key, None if run is None else run.workload)


def _uses_quota(obj: Json | None) -> bool:
    """Return whether the object of a Workload shows quota; None: the object does not exist."""
    return obj is not None and not is_true(obj, "Finished") and has_quota(obj)


def _generation(obj: Json) -> int:
    return cast("int", obj["metadata"].get("generation", 0))
