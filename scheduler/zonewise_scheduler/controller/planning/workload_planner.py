"""What the planner decides about Workloads: their observed states go in, intents to write come out.

A decision is an intent until its Workload shows it. The planner counts it at once (the workload is assumed). It takes
the decision back where that cannot be written any more: the Workload was changed or deleted, or this replica does not
lead.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, cast

from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.planning.intents import AdmitIntent, EvictIntent, intents_of
from zonewise_scheduler.controller.planning.lost_workload import quota_problem
from zonewise_scheduler.controller.planning.timers import Timers
from zonewise_scheduler.controller.planning.workload_sync import remove_workload, sync_workload
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.pod_defaults import (
    NO_POD_DEFAULTS,
    changed_namespaces,
    check_pods,
    with_pod_defaults,
)
from zonewise_scheduler.controller.workloads.status import has_quota

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.backfill.checkpoint import Checkpoint
    from zonewise_scheduler.backfill.planner_feed import PlannerFeed
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.controller.nodes.node_view import NodeView
    from zonewise_scheduler.controller.planning.active_jobs import ActiveJobs
    from zonewise_scheduler.controller.planning.intents import Intent
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.workloads.pod_defaults import PodDefaults

log = logging.getLogger(__name__)

_RETRY_AFTER = 10.0
"""Seconds after which a Workload is given to the planner again that could not be."""


class WorkloadPlanner:
    """See the module."""

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
        """Plan `workloads`, the newest state of each by its key (namespace/name).

        `max_assumed`: decisions that no object shows yet, at most. `jobs`: while they are active, quota is held.
        `is_namespace_deleted` tells whether a namespace is being deleted. `pod_defaults` returns what the API server
        adds to pods; another value after each change.
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
        """Workloads that have lost their quota by their objects, while their pods are active."""
        self._restored: dict[str, int] = {}
        """Of these those that were restored, with the number of active pods at that time."""
        self._intents: dict[str, Intent] = {}
        self._unsynced: dict[str, None] = {}
        """Workloads to be given to the planner."""
        self._holds = Timers()
        """When Workloads on hold are pending again, and when to give the planner those that it has not taken."""
        self._checkpoint: Checkpoint | None = None
        """To be restored once the planner has the Workloads."""
        self._pass_due_at = -inf

    # --- what goes in

    def change(self, key: str) -> None:
        """Note that a Workload has changed."""
        self._unsynced[key] = None

    def restart(self, checkpoint: Checkpoint | None) -> None:
        """Forget all intents; restore reservations and usage of a checkpoint in the next step; None: none is known."""
        self._checkpoint = checkpoint
        self._pass_due_at = -inf
        for key in list(self._intents):
            self._drop_intent(key)

    def note_change(self) -> None:
        """Note that queues or nodes have changed in the planner."""
        self._pass_due_at = -inf

    def note_configuration(self) -> None:
        """Note that queues have changed: a Workload that was invalid may be valid now."""
        self.note_change()
        self._unsynced.update(dict.fromkeys(self.invalid))

    def sync(self, now: float) -> list[str]:
        """Give the planner each Workload that has changed; return those whose hold has ended."""
        self._note_pod_defaults()
        due = self._holds.pop_due(now)
        unsynced, self._unsynced = self._unsynced, {}
        keys = list(dict.fromkeys([*due, *unsynced, *self._stopping]))
        keys.sort(key=lambda key: not _uses_quota(self._workloads.get(key)))  # what is lost gets what the others leave
        for key in keys:
            try:
                self._sync(key, now)
            except Exception:  # a defect with one Workload must not keep the planner from the others
                log.exception("workload=%s: the planner does not have its newest state", key)
                self._holds.set(key, now + _RETRY_AFTER)
        if self._checkpoint is not None:
            checkpoint, self._checkpoint = self._checkpoint, None
            self.feed.restore(checkpoint)
        return due

    def _note_pod_defaults(self) -> None:
        """Complete pending Workloads anew, if the API server adds something else to pods than before."""
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
            obj = None  # its job will end in a second, and nothing of it runs
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

    def _completed(self, key: str, obj: Json | None) -> Json | None:
        """Return a Workload as its pods will be, None: it has ended; raise FieldError where they would be rejected."""
        if obj is None or is_true(obj, "Finished"):
            return None
        completed = with_pod_defaults(obj, self._known_defaults)
        if not has_quota(obj) and key not in self.feed.state.running:
            check_pods(completed, self._known_defaults)
        return completed

    def _restore_lost(self, key: str, obj: Json | None) -> None:
        """Give the planner what active pods run by, where an earlier leader has held its quota without its object.

        Once one of the pods has ended, the others are counted anew.
        """
        state, pods = self.feed.state, self._jobs.active_pods(key)
        if key in state.running and not _uses_quota(obj) and self._restored.get(key, pods) == pods:
            return
        self._restored.pop(key, None)
        if _uses_quota(obj):
            return
        if key in state.running:
            self.feed.finish(key)
        lost = self._jobs.lost_workload(key, state.snapshot.resource_flavors or {}, self._known_defaults)
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
        """Tell whether a workload has no quota by its object, and its pods are active nevertheless."""
        if key not in self.feed.state.running or self._is_assumed(key):
            return False
        return not _uses_quota(obj) and self._jobs.is_active(key)

    # --- what comes out

    @property
    def assumed(self) -> int:
        """Return the number of decisions that no object shows yet."""
        return len(self._intents)

    def intent(self, key: str) -> Intent | None:
        """Return what is decided about a Workload and not shown by it; None: nothing is."""
        return self._intents.get(key)

    def wake_at(self, now: float, *, leads: bool) -> float:
        """Return when the next step is due if nothing happens."""
        if self._unsynced:
            return now
        return min(self._holds.next_at, self._pass_due_at if leads and self._allowance() > 0 else inf)

    def decide(self, now: float) -> Iterable[str]:
        """Run a pass if it is due; return the Workloads that it has decided about."""
        allowance = self._allowance()
        if self._pass_due_at > now or allowance <= 0:
            return ()
        plan = self._run_pass(self.feed, now, allowance)
        self._pass_due_at = -inf if len(plan.admitted) >= allowance else plan.wake_at
        decided: list[str] = []
        for key, intent in intents_of(plan):
            obj = self._workloads.get(key)
            if obj is not None:
                admits = isinstance(intent, AdmitIntent)
                self._intents[key] = intent._replace(generation=_generation(obj)) if admits else intent
                decided.append(key)
                self._note_placement(key)
        return decided

    def end_intent(self, key: str, obj: Json) -> None:
        """Drop the intent that an object shows. An eviction of a workload whose admission was never written is none."""
        intent = self._intents.pop(key, None)
        lost = isinstance(intent, EvictIntent) and key in self.feed.state.running and not has_quota(obj)
        if lost and not self._holds_quota(key, obj):
            self.feed.forget(key)
            self._unsynced[key] = None

    # --- intents

    def _allowance(self) -> int:
        """Return how many more admissions may be decided before earlier ones are written."""
        return self._max_assumed - len(self._intents)

    def _is_assumed(self, key: str) -> bool:
        intent = self._intents.get(key)
        return isinstance(intent, AdmitIntent) and not intent.has_quota

    def _forget_outdated(self, key: str, obj: Json | None) -> None:
        """Drop the intent of a workload whose object is gone, or has other requirements than it was admitted with.

        An eviction stays whatever else changes: the planner counts the workload as stopping, and reports it once.
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
        """Take a decision back: what has quota by its object is added to the planner anew."""
        assumed = self._is_assumed(key)
        del self._intents[key]
        if key in self.feed.state.running:
            (self.feed.forget if assumed else self.feed.finish)(key)
            self._unsynced[key] = None

    def _note_placement(self, key: str) -> None:
        run = self.feed.state.running.get(key)
        self._nodes.set_placement(key, None if run is None else run.workload)


def _uses_quota(obj: Json | None) -> bool:
    """Tell whether a Workload has quota by its object; None: it does not exist."""
    return obj is not None and not is_true(obj, "Finished") and has_quota(obj)


def _generation(obj: Json) -> int:
    return cast("int", obj["metadata"].get("generation", 0))
