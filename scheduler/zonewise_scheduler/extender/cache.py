"""The extender's cache: the state of the cluster, and the arrays for judging pods.

Three locks protect it. They are acquired in this order.

| lock    | its holder may                                                                                    |
|---------|---------------------------------------------------------------------------------------------------|
| gangs   | place gangs. It releases the judging lock meanwhile, so that calls for other pods do not wait     |
| judging | use the arrays, which place single pods                                                           |
| short   | read and change the state: to handle events, read changes or assume a pod                         |
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.extender.cache_view import CacheView
from zonewise_scheduler.extender.fallback_policy import DENY
from zonewise_scheduler.extender.placing.gang_scheduler import GangScheduler
from zonewise_scheduler.extender.placing.placer import HELD, NodesWithout, Placer, ScheduleResult, with_reasons
from zonewise_scheduler.extender.placing.unit_placer import UnitPlacer
from zonewise_scheduler.extender.state.cluster_state import ClusterState
from zonewise_scheduler.extender.tables import diagnosis
from zonewise_scheduler.extender.tables.judging_budget import FILTER_SECONDS, JudgingBudget
from zonewise_scheduler.extender.tables.rejections import BINDING, GONE, POD_GROUP, RejectionCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
    from zonewise_scheduler.extender.objects.api_objects import ObservedPod, PublishedReport
    from zonewise_scheduler.extender.objects.pod_group import PodGroup
    from zonewise_scheduler.extender.objects.served import Served
    from zonewise_scheduler.extender.placing.placer import PodPlacement
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.extender.types import CandidateNodes
    from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts, Misprediction, PendingPod
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey


class ExtenderCache:
    """See the module."""

    def __init__(
        self,
        clock: Callable[[], float],
        timeouts: LedgerTimeouts,
        fallback: FallbackPolicy,
        on_misprediction: Callable[[Misprediction], object],
        *,
        direct_binding: bool = False,
    ) -> None:
        """Take a clock in seconds since the epoch that never goes back, and a callback for mispredictions."""
        self.kinds = KindInterner()
        self.changed = threading.Event()
        """Set by each event that may let a waiting pod fit."""
        self._clock = clock
        self._fallback = fallback
        self._direct_binding = direct_binding
        self._is_pass_due = False
        self._state = ClusterState(clock, timeouts, on_misprediction, self._note_change)
        self._gangs_lock = threading.Lock()
        self._judging = threading.Lock()
        self._placer = Placer(self._state, fallback)
        self._gangs = GangScheduler(self._state, self._placer, self._judging, direct_binding=direct_binding)
        self._units = UnitPlacer(self._state, self._placer, self._gangs)
        self._rejections = RejectionCache()
        self._resumed: list[PendingPod] = []
        self._view = CacheView(self._state, self._placer, self._judging, clock, fallback)

    # --- events

    def _note_change(self) -> None:
        self._is_pass_due = True
        self.changed.set()

    def update_node(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """Add, update or remove a node."""
        self._state.update_node(old, new)

    def kubelet_release(self, node: str) -> tuple[int, int]:
        """Return the release of a node's kubelet, or the newest known release if the node does not state it."""
        return self._state.kubelet_release(node)

    def update_report(self, old: PublishedReport | None, new: PublishedReport | None) -> None:
        """Add, update or remove a node's report."""
        self._state.update_report(old, new)

    def update_pod(self, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """Add, update or remove a pod; run the callback if its kubelet rejected it against the prediction."""
        self._state.update_pod(old, new)

    def update_pod_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Add, update or remove a PodGroup."""
        self._state.update_pod_group(old, new)

    def set_pod_groups_served(self, api_group: str, served: Served) -> None:
        """Record whether the API server serves the PodGroups of an API."""
        self._state.set_pod_groups_served(api_group, served)

    def set_view_age(self, age: float) -> None:
        """Record for how many seconds nodes, reports or pods have not been known to be current."""
        self._state.set_outdated(outdated=age > self._fallback.watch_stale_after)

    def tick(self) -> None:
        """Apply the changes that only time causes: expired assumed pods, ended backoffs."""
        self._state.tick()
        with self._gangs_lock, self._judging:
            self._placer.refresh()
            self._placer.clear_settled_rejections(self._clock())
            self._gangs.tick(self._clock())
        self.changed.set()

    def resume(self) -> None:
        """After a start, requeue a pod of each scheduler: those that call the filter thereby become known again.

        Passes then place the other pods that a scheduler had tried before the start. Otherwise these pods would wait
        until the scheduler tries one of them by itself, which takes up to five minutes.
        """
        if self._direct_binding:
            with self._state.lock:
                self._resumed = self._state.waiting.of_unknown_schedulers()

    # --- placing pods

    def select_and_assume(
        self, pod: PendingPod, candidates: CandidateNodes, *, daemon_set: bool = False
    ) -> ScheduleResult:
        """Assume a pod on the best candidate that admits it. An earlier assumption of the same pod is forgotten.

        A pod that is bound, or is being bound, keeps its node; a deleted pod gets none. `daemon_set`: the pod belongs
        to a DaemonSet.
        """
        with self._judging:
            with self._state.lock:
                node, is_gone = self._state.bindings.node(pod.uid), self._state.is_gone(pod.uid)
            if node:
                return self._keep(pod, node, candidates)
            if is_gone:
                return ScheduleResult("", None, self._rejections.fail_all("the pod was deleted", GONE, candidates))
            self._state.forget(pod.uid)
            self._placer.refresh()
            result = self._select(pod, candidates, daemon_set=daemon_set)
            if result.node:
                with self._state.lock:
                    self._state.unschedulable.remove(pod.uid)
            return result

    def select_gang_member(
        self, pod: PendingPod, key: GroupKey, scheduler: str, candidates: CandidateNodes
    ) -> ScheduleResult | None:
        """Assume a pod of a PodGroup with its whole gang; return None if the pod is to be placed by itself.

        `scheduler`: the name of the pod's scheduler.
        """
        state = self._state
        with self._gangs_lock, self._judging:
            with state.lock:
                node, is_single = state.bindings.node(pod.uid), state.gangs.is_single(key)
                state.waiting.learn_scheduler(scheduler)
            if node:
                return self._keep(pod, node, candidates)
            if is_single and not self._gangs.holds(pod.uid):
                return None
            self._placer.refresh()
            outcome = self._gangs.filter(pod, key, scheduler, candidates, self._clock())
        if outcome is None:
            return None
        self.changed.set()  # the other members of the gang must be bound
        if isinstance(outcome, str):
            return ScheduleResult("", None, self._rejections.fail_all(outcome, POD_GROUP, candidates))
        return ScheduleResult(outcome.node, outcome.verdict)

    def request_gang(self, key: GroupKey, scheduler: str) -> bool:
        """Record that kube-scheduler tries a pod of a gang; return False if the pod is to be placed by itself."""
        with self._state.lock:
            if self._state.gangs.is_single(key):
                return False
            self._state.gangs.request(key, scheduler)
            return True

    def burst_delay(self, pod: PendingPod) -> float:
        """Return the seconds for which the filter call of a pod should wait for the rest of the pod's burst.

        Pods of a burst are packed better when all of them are known. There is no delay if many nodes, or none, may
        admit this pod, or if many may admit the waiting pods.
        """
        if not self._direct_binding:
            return 0.0
        with self._state.lock:
            now = self._clock()
            delay = self._state.waiting.burst_delay(pod.uid, now)
        if delay <= 0:
            return 0.0
        with self._judging:
            self._placer.refresh()
            return delay if self._units.may_have_plan(pod.shape, now) else 0.0

    def place_waiting(self) -> list[PodPlacement]:
        """Run one scheduling pass: assume the waiting pods that fit, each on the node to which it will be bound."""
        if not self._direct_binding:
            return []
        with self._gangs_lock, self._judging:
            self._is_pass_due = False
            self._placer.refresh()
            placements = self._units.place_all(self._clock())
            if self._gangs.has_more:
                self.changed.set()
            return placements

    def take_placements(self) -> list[PodPlacement]:
        """Return the pods to be bound; after a failed pass, return the pods that it had assumed."""
        with self._judging:
            return self._placer.take_placements()

    def end_binding(self, placement: PodPlacement, result: str) -> None:
        """Record how the binding of a placed pod ended: "bound", "gone" (the pod no longer exists) or "failed"."""
        if result == "bound":
            self._state.confirm_binding(placement.pod, placement.node)
            return
        if result == "failed":
            with self._gangs_lock:
                if self._gangs.hold(placement, self._clock()):
                    return
        self._state.cancel_binding(placement.pod.uid, gone=result == "gone")

    def drop_pod(self, uid: str) -> None:
        """Drop a waiting pod that no longer exists."""
        with self._state.lock:
            self._state.drop_waiting(uid)

    def reserve(self, uid: str, node: str) -> str | None:
        """Count the requests of an unbound pod on a node; return why the node has too little left for it.

        A pod that is assumed or unknown passes.
        """
        with self._state.lock:
            waiting = self._state.waiting.get(uid)
            if waiting is None or self._state.ledger.node_of(uid) is not None:
                return None
        return self._state.reserve(uid, waiting.spec.constraints, node)

    def pods_to_requeue(self) -> list[PendingPod]:
        """Return unschedulable pods that a changed node may admit, and those of resume().

        An exponential backoff delays each repetition.
        """
        state = self._state
        with self._gangs_lock, self._judging:
            self._placer.refresh()
            if self._placer.judge_more():
                self.changed.set()
            with state.lock:
                shapes = state.unschedulable.due_shapes()
            changes = {shape: self._placer.table.change_revisions(shape) for shape in shapes}
            if not self._direct_binding:
                self._gangs.begin_pass()
                self._gangs.place_before(None, self._clock())
            with state.lock:
                pods = state.unschedulable.pop_due(self._clock(), changes, self._is_bindable)
                resumed, self._resumed = self._resumed, []
            return [*resumed, *self._gangs.take_requeued(), *pods]

    # --- queries

    @property
    def view(self) -> CacheView:
        """Return the view for the metrics and `/debug/state`."""
        return self._view

    @property
    def state(self) -> ClusterState:
        """Return the state of the cluster, which contains the short lock."""
        return self._state

    def scores(self, shape: PodShape, names: list[str]) -> list[int]:
        """Return 0 to 100 for each node; 0 for a node without a report."""
        with self._judging:
            self._placer.refresh()
            return self._placer.table.scores(shape, self._placer.pending_shapes(), names)

    @property
    def allows_every_node(self) -> bool:
        """Return whether a pod that no kubelet aligns may be bound to any node."""
        return DENY not in (self._fallback.unreported, self._fallback.stale)

    def allowed_nodes(self, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return the nodes allowed for a pod that no kubelet aligns, and a reason for each other node."""
        with self._judging:
            now = self._clock()
            self._placer.refresh()
            failed = {name: reason for name in names if (reason := self._denial(name, now))}
            return [name for name in names if name not in failed], failed

    def predicted_verdict(self, uid: str) -> Verdict | None:
        """Return the verdict predicted for an assumed pod, or None if the pod is not assumed."""
        return self._state.predicted_verdict(uid)

    # --- with the judging lock held

    def _select(self, pod: PendingPod, candidates: CandidateNodes, *, daemon_set: bool) -> ScheduleResult:
        placer, now = self._placer, self._clock()
        waiting = self._request(pod.uid, now)
        cached = self._rejections.get(pod.shape, candidates, len(placer.table))
        if cached is not None and not placer.table.change_revisions(pod.shape):
            return self._reject(pod, ScheduleResult("", None, cached.failed_nodes))
        constraints = waiting.spec.constraints if waiting is not None else None
        reserved: frozenset[str] = frozenset()
        plan = None
        if waiting is not None and placer.table.possible_nodes(pod.shape, 1):
            if self._is_pass_due:  # the nodes that have changed belong to the pods that precede this one
                self._units.place_preceding(waiting, now)
                self.changed.set()
            if self._is_bindable_now(waiting):
                plan = self._units.waiting_plan(now)
        if plan is not None and waiting is not None:
            placement = self._units.place_by_plan(waiting, plan, candidates, now)
            if placement is not None:
                self.changed.set()  # slots that were on hold may be open now
                return ScheduleResult(placement.node, placement.verdict)
            reserved = self._units.reserved_nodes(waiting, plan)
        selection = placer.select(
            pod, constraints, NodesWithout(candidates, reserved), now, JudgingBudget(FILTER_SECONDS)
        )
        if selection.node:
            return ScheduleResult(selection.node, selection.verdict)
        placer.learn_delegated(waiting, candidates, now)
        unreported = placer.assume_unreported(pod, candidates, daemon_set=daemon_set)
        if unreported:
            return ScheduleResult(unreported, None)
        unexplained = [name for name in candidates.names if name not in selection.reasons]
        held = {name: HELD for name in reserved if name in candidates and placer.table.may_admit(name, pod.shape)}
        failed = with_reasons(diagnosis.diagnose(pod.shape, unexplained, placer.table), selection.reasons | held)
        if not selection.reasons and not daemon_set and not placer.table.change_revisions(pod.shape):
            self._rejections.put(pod.shape, len(placer.table), failed)
        return self._reject(pod, ScheduleResult("", None, failed))

    def _request(self, uid: str, now: float) -> WaitingPod | None:
        """Record that kube-scheduler has filtered a pod; return the pod if scheduling passes bind pods."""
        if not self._direct_binding:
            return None
        with self._state.lock:
            self._state.waiting.request(uid, now)
            return self._state.waiting.get(uid)

    def _is_bindable_now(self, waiting: WaitingPod) -> bool:
        with self._state.lock:
            return self._state.waiting.is_bindable(waiting)

    def _is_bindable(self, uid: str) -> bool:
        """Return whether a scheduling pass places a pod; the caller also holds the short lock."""
        waiting = self._state.waiting.get(uid)
        return self._direct_binding and waiting is not None and self._state.waiting.is_bindable(waiting)

    def _reject(self, pod: PendingPod, result: ScheduleResult) -> ScheduleResult:
        if self._units.claims:
            self.changed.set()  # this pod may have claimed nodes that other pods can have now
        with self._state.lock:
            self._state.unschedulable.add(pod, self._placer.table.revision)
        return result

    def _keep(self, pod: PendingPod, node: str, candidates: CandidateNodes) -> ScheduleResult:
        """Return the node to which a pod is being bound."""
        if node in candidates:
            return ScheduleResult(node, self._state.predicted_verdict(pod.uid))
        failed = self._rejections.fail_all(f"the pod is being bound to {node}", BINDING, candidates)
        return ScheduleResult("", None, failed)

    def _denial(self, name: str, now: float) -> str:
        """Return the reason why the fallback policy denies a node, or "" if it allows the node."""
        if self._fallback.unreported == DENY and name not in self._placer.table:
            return diagnosis.NO_REPORT
        if self._fallback.stale == DENY:
            with self._state.lock:
                if self._state.ledger.is_stale(name, now, self._fallback.stale_after):
                    return diagnosis.STALE_REPORT
        return ""
