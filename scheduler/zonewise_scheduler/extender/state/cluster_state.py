"""The state of the cluster as the extender knows it: reports, nodes, pods and assumed pods.

One short lock protects the whole state. No method judges a pod on more than one node, so event handlers and calls of
kube-scheduler never wait for each other's work. Only the ledger determines the free amounts of a node.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.report.node_report import DEFAULT_RELEASE
from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.extender.fallback_policy import ALLOW
from zonewise_scheduler.extender.formatting import describe_state
from zonewise_scheduler.extender.objects.running_pods import RunningPods
from zonewise_scheduler.extender.state.bindings import Bindings
from zonewise_scheduler.extender.state.deleted_mirror_pods import DeletedMirrorPods
from zonewise_scheduler.extender.state.gang_members import GangMembers, MemberState
from zonewise_scheduler.extender.state.node_infos import NodeInfos
from zonewise_scheduler.extender.state.node_reports import NodeReports
from zonewise_scheduler.extender.state.nominated_pods import NominatedPods
from zonewise_scheduler.extender.state.unschedulable_pods import UnschedulablePods
from zonewise_scheduler.extender.state.waiting_pods import WaitingPods
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import BoundPod, PendingPod
from zonewise_scheduler.nodes.node.node_info import lacks
from zonewise_scheduler.nodes.preemption.types import Preemptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
    from zonewise_scheduler.extender.objects.api_objects import ObservedPod, PublishedReport
    from zonewise_scheduler.extender.objects.pod_group import PodGroup
    from zonewise_scheduler.extender.objects.served import Served
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.nodes.assumed.types import LedgerCounters, LedgerTimeouts, Misprediction
    from zonewise_scheduler.nodes.filters.constraints import Constraints
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey

NODE_FILTER = "NodeFilter"
"""A reason in addition to those of the ledger: the node as a whole has too little left, or a host port is in use."""
GONE_FOR = 10.0
"""Seconds for which a deletion is remembered: kube-scheduler learns of it later, and may filter the pod once more."""
PREBIND_TIMEOUT = 630.0
"""Seconds for which a pod with volumes or resource claims may be assumed. Before kube-scheduler binds it, it waits for
up to 600 s until volumes are provisioned and devices are ready (pkg/scheduler/apis/config/v1/defaults.go
SetDefaults_VolumeBindingArgs, SetDefaults_DynamicResourcesArgs)."""
_PREBOUND = frozenset({"volumes", "resource claims"})
"""The constraints of such pods."""


class StateChanges(NamedTuple):
    """The changes since the last call."""

    states: list[tuple[str, NodeState | None]]
    """States of nodes with a report; None if a node no longer has one."""
    reported: list[str]
    """Nodes with a new report, even if the state is equal."""
    infos: list[tuple[str, NodeInfo | None]]


class ClusterState:
    """See the module."""

    def __init__(
        self,
        clock: Callable[[], float],
        timeouts: LedgerTimeouts,
        on_misprediction: Callable[[Misprediction], object],
        on_change: Callable[[], object],
    ) -> None:
        """`on_change` is called without the lock after events that may let a waiting pod fit."""
        self._clock = clock
        self._on_misprediction = on_misprediction
        self._on_change = on_change
        self.lock = threading.Lock()
        """The short lock: a caller that uses an attribute below must hold it."""
        self.ledger = Ledger(timeouts=timeouts)
        self.infos = NodeInfos()
        self.waiting = WaitingPods()
        self.unschedulable = UnschedulablePods()
        self.gangs = GangMembers()
        self.bindings = Bindings(self.ledger, self.infos, timeouts.assume_timeout)
        self.running = RunningPods()
        self.nominated = NominatedPods(self.ledger, self.infos, self.running, self.waiting)
        self._reports = NodeReports()
        self._reported: set[str] = set()
        self._mirrors = DeletedMirrorPods()
        self._gone: dict[str, float] = {}  # by UID: when a pod was deleted

    # --- events

    def update_node(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """Add, update or remove a node."""
        with self.lock:
            if new is not None:
                state = self._reports.changed_state(self.infos.get(new.name), new)
                self.infos.set_node(new)
                if state is not None:
                    self.ledger.replace_state(new.name, state, self._clock())
            elif old is not None:
                self.infos.remove_node(old.name)
        self._on_change()

    def kubelet_release(self, node: str) -> tuple[int, int]:
        """Return the release of a node's kubelet, or the newest known release if the node does not state it."""
        info = self.infos.get(node)
        return (info.release if info is not None else None) or DEFAULT_RELEASE

    def update_report(self, old: PublishedReport | None, new: PublishedReport | None) -> None:
        """Add, update or remove a node's report."""
        with self.lock:
            if new is not None:
                replaces = old.report.version if old is not None else ""
                report = self._reports.set(new.report, self.infos.get(new.report.node))
                now = self._clock()
                self.ledger.update_report(report, now, published=new.published, replaces=replaces)
                mirrors = self._mirrors.on_node(new.report.node)
                self._end_static_pods([pod for pod in mirrors if self.ledger.is_released(pod.uid)], now)
                self._reported.add(new.report.node)
            elif old is not None:
                self._reports.remove(old.report.node)
                self.ledger.remove_report(old.report.node, self._clock())
        self._on_change()

    def update_pod(self, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """Add, update or remove a pod; run the callback if its kubelet rejected it against the prediction."""
        misprediction: Misprediction | None = None
        with self.lock:
            now = self._clock()
            if new is None:
                self._remove_pod(old, now)
            elif old is None or not old.rejected:  # a rejected pod counts once, however often it changes afterwards
                misprediction = self._add_pod(new, now)
        self._on_change()
        if misprediction is not None:  # without the lock: the callback may write to a slow disk
            self._on_misprediction(misprediction)

    def update_pod_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Add, update or remove a PodGroup."""
        with self.lock:
            if new is not None:
                self.gangs.set_group(new)
            elif old is not None:
                self.gangs.remove_group(old.key)
        self._on_change()

    def set_pod_groups_served(self, api_group: str, served: Served) -> None:
        """Record whether the API server serves the PodGroups of an API."""
        with self.lock:
            self.gangs.set_served(api_group, served)
        self._on_change()

    def _remove_pod(self, pod: ObservedPod | None, now: float) -> None:
        if pod is not None and pod.victim.static and not self.ledger.is_released(pod.uid):
            self._mirrors.add(pod, now)
        elif pod is not None:
            self._end_pod(pod, now)

    def _end_pod(self, pod: ObservedPod, now: float) -> None:
        self._drop(pod.uid)
        self.ledger.remove_pod(pod.uid, now)
        self._gone[pod.uid] = now

    def _end_predecessor(self, pod: ObservedPod, now: float) -> None:
        """End the static pod whose file has changed into that of a mirror pod."""
        predecessor = self._mirrors.take_predecessor(pod)
        if predecessor is not None:
            self._end_pod(predecessor, now)

    def _end_static_pods(self, pods: Iterable[ObservedPod], now: float) -> None:
        for pod in pods:
            self._mirrors.remove(pod)
            self._end_pod(pod, now)

    def _add_pod(self, pod: ObservedPod, now: float) -> Misprediction | None:
        """Apply the current state of a pod; return its misprediction, if any."""
        self._gone.pop(pod.uid, None)
        self._end_predecessor(pod, now)
        if pod.node or pod.terminal:
            self.end_nomination(pod.uid)
            self.unschedulable.remove(pod.uid)
            self.waiting.remove(pod.uid)
            self.bindings.requested.pop(pod.uid, None)
        if pod.terminal:
            self._drop(pod.uid)
        else:
            self.waiting.set_terms(pod.uid, pod.anti_affinity)
            self.gangs.observe(pod.uid, pod.group, bound=bool(pod.node))
        if pod.rejected:
            return self.ledger.reject_pod(pod.uid, pod.reason, pod.message, now)
        if pod.terminal:
            self.ledger.remove_pod(pod.uid, now)
        elif pod.node:
            self._add_bound(pod, now)
        elif pod.shape is not None and pod.scheduling is not None:
            version = self.waiting.version
            self.waiting.observe(PendingPod(pod.uid, pod.namespace, pod.name, pod.shape), pod.scheduling, now)
            if self.waiting.version != version:
                self.gangs.touch(pod.uid)
                self._hold_until_bound(pod.uid, now)  # the filter call may come before the first event
            if pod.group is not None and self.waiting.is_tried(pod.uid):
                self.gangs.request(pod.group, pod.scheduling.scheduler)
            if pod.nominated:
                preemptor = Preemptor(pod.uid, pod.namespace, pod.name, pod.shape, pod.scheduling.priority)
                self.nominated.observe(preemptor, pod.nominated, now)
        return None

    def _add_bound(self, pod: ObservedPod, now: float) -> None:
        if pod.info is not None:
            self.bindings.observe_bound(pod.uid, pod.node, pod.info)
        if pod.shape is not None:
            bound = BoundPod(pod.uid, pod.namespace, pod.name, pod.shape, pod.node, pod.started, pod.confirmed)
            self.ledger.add_pod(bound, now)
            self.running.set(bound, pod.victim)

    def _drop(self, uid: str) -> None:
        """Drop a pod that is gone or no longer runs."""
        self.drop_waiting(uid)
        self.waiting.set_terms(uid, ())
        self.gangs.remove(uid)
        self.bindings.remove(uid)
        self.running.remove(uid)
        self.end_nomination(uid)

    def drop_waiting(self, uid: str) -> None:
        """Drop a pod that no longer waits; the caller holds the lock."""
        self.unschedulable.remove(uid)
        self.waiting.remove(uid)
        self.bindings.requested.pop(uid, None)

    # --- bindings by the extender

    def confirm_binding(self, pod: PendingPod, node: str) -> None:
        """Record that the API server has bound a pod."""
        with self.lock:
            self.bindings.confirm(pod, node)

    def cancel_binding(self, uid: str, *, gone: bool) -> None:
        """Forget a placed pod that is not bound; leave it to kube-scheduler, unless it is gone."""
        with self.lock:
            if self.bindings.requested.pop(uid, None) is None:
                return  # an event has shown the outcome
            if gone:
                self.drop_waiting(uid)
            else:
                self.waiting.withdraw(uid)
            self._forget(uid)
            self.unschedulable.recheck_all()
        self._on_change()

    # --- for judging

    def take_changes(self) -> StateChanges:
        """Return the changes since the last call."""
        with self.lock:
            changed = sorted(self.ledger.changed_nodes())
            states = [(name, self.ledger.state(name)) for name in changed]
            reported = sorted(self._reported)
            self._reported.clear()
            return StateChanges(states, reported, [(name, self.infos.get(name)) for name in self.infos.take_changed()])

    def set_outdated(self, *, outdated: bool) -> None:
        """Record that events no longer arrive, so that every report counts as stale, or that they arrive again."""
        with self.lock:
            self.ledger.set_outdated(outdated=outdated)

    def tick(self) -> None:
        """Apply the changes that only time causes: expired assumed pods, ended backoffs."""
        with self.lock:
            now = self._clock()
            self._end_static_pods(self._mirrors.expired(now), now)
            self.ledger.tick(now)
            self.waiting.expire(now)
            for uid in self.gangs.assumed():
                self._update_member(uid)  # the ledger's timeout may have ended its assumption
            self.bindings.expire(now)
            for node in self.nominated.expire(now):
                self.ledger.mark_changed(node)
            self._gone = {uid: at for uid, at in self._gone.items() if now < at + GONE_FOR}

    def assume(
        self, pod: PendingPod, node: str, constraints: Constraints | None = None, *, allow_unreported: bool = False
    ) -> Verdict:
        """Predict a kubelet's verdict on a pod, and assume the pod on the node if it is admitted.

        `constraints`: the node must also have enough for the pod's requests and host ports, which count from now on.
        Otherwise it rejects the pod with the reason NODE_FILTER.
        """
        with self.lock:
            inputs, admit = self.ledger.assumed_state(node), self.ledger.admit
        if inputs is not None:  # without the lock: fills the cache of verdicts that the ledger uses
            inputs.assume(pod.shape, admit)
        with self.lock:
            reason = self.bindings.insufficient(pod.uid, constraints, node) if constraints is not None else None
            if reason is not None:
                return Verdict(admitted=False, reason=NODE_FILTER, message=reason)
            verdict = self.nominated.assume(pod, node, self._clock(), allow_unreported=allow_unreported)
            if verdict.admitted:
                self._update_member(pod.uid)
            if verdict.admitted and constraints is not None:
                self.bindings.reserve(pod.uid, constraints, node, self._clock())
            if verdict.admitted:
                self._hold_until_bound(pod.uid, self._clock())
            return verdict

    def _hold_until_bound(self, uid: str, now: float) -> None:
        """Let the assumption of a pod, if any, outlast what kube-scheduler does before it binds the pod."""
        if self.is_bound_late(uid):
            self.ledger.hold(uid, now + PREBIND_TIMEOUT)
            self.bindings.hold(uid, now + PREBIND_TIMEOUT)

    def end_nomination(self, uid: str) -> None:
        """End the nomination of a pod that is bound or gone, if it has one; the caller holds the lock."""
        for node in self.nominated.nominations.end(uid):
            self.ledger.mark_changed(node)

    def reserve(self, uid: str, constraints: Constraints, node: str) -> str | None:
        """Count the requests of a pod that no kubelet aligns on a node; return why the node has too little left."""
        with self.lock:
            reason = self.bindings.insufficient(uid, constraints, node)
            if reason is None:
                self.bindings.reserve(uid, constraints, node, self._clock())
            return reason

    def hold(self, uid: str, until: float) -> None:
        """Let the assumption of a pod and its reserved amounts expire no earlier than this."""
        with self.lock:
            self.ledger.hold(uid, until)
            self.bindings.hold(uid, until)

    def forget(self, uid: str) -> None:
        """Forget an assumed pod, unless it has been bound meanwhile."""
        with self.lock:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self.ledger.forget(uid, self._clock())
        self.bindings.release(uid)
        self._update_member(uid)

    def _update_member(self, uid: str) -> None:
        """Update the state of a gang member from the ledger."""
        if self.ledger.node_of(uid) is None:
            self.gangs.forget(uid)
        else:
            self.gangs.assume(uid)

    # --- queries

    def predicted_verdict(self, uid: str) -> Verdict | None:
        """Return the verdict predicted for an assumed pod, or None if the pod is not assumed."""
        with self.lock:
            return self.ledger.predicted_verdict(uid)

    def is_gone(self, uid: str) -> bool:
        """Return whether a pod was deleted recently; the caller holds the lock."""
        return uid in self._gone

    def is_bound_late(self, uid: str) -> bool:
        """Return whether kube-scheduler may take PREBIND_TIMEOUT to bind a pod; the caller holds the lock.

        If the pod's node lacks a resource, a DeviceClass may provide it, and kube-scheduler creates a claim.
        """
        waiting = self.waiting.get(uid)
        if waiting is None:
            return False
        constraints, info = waiting.spec.constraints, self.infos.get(self.ledger.node_of(uid) or "")
        if not _PREBOUND.isdisjoint(constraints.scheduler_only):
            return True
        return info is not None and any(lacks(info, name) for name, _ in constraints.requests.scalar_resources)

    def ready_members(self, key: GroupKey) -> list[WaitingPod]:
        """Return the waiting members of a gang that its scheduler may bind; the caller holds the lock."""
        scheduler = self.gangs.scheduler(key)
        pods = (self.waiting.get(uid) for uid in self.gangs.members(key, MemberState.WAITING))
        return [pod for pod in pods if pod is not None and not pod.spec.gated and pod.spec.scheduler == scheduler]

    def closed_nodes(self, shapes: Iterable[PodShape], fallback: FallbackPolicy) -> frozenset[str]:
        """Return the nodes that reject pods of these shapes, whatever they have free.

        Their report is stale and the policy excludes them, or they are in backoff for one of the shapes.
        """
        with self.lock:
            now, ledger = self._clock(), self.ledger
            closed = {node for shape in set(shapes) for node in ledger.backoff.nodes(shape, now)}
            if fallback.stale != ALLOW:
                closed.update(name for name in self.infos if ledger.is_stale(name, now, fallback.stale_after))
        return frozenset(closed)

    def node_of(self, uid: str) -> str:
        """Return the node on which a pod is assumed or bound, or "" if there is none."""
        with self.lock:
            return self.ledger.node_of(uid) or ""

    def counters(self) -> LedgerCounters:
        """Return the ledger's counters."""
        with self.lock:
            return self.ledger.counters()

    def dump_node(self, name: str) -> dict[str, object]:
        """Return the view of a node, as JSON."""
        with self.lock:
            state, pods = self.ledger.state(name), self.ledger.assumed_pods(name)
        assumed = [f"{pod.namespace}/{pod.name}" for pod in pods]
        description = {"report": None} if state is None else describe_state(state)
        # deprecated in 0.1.0, dropped in the next minor version: inFlight
        return {"assumedPods": assumed, "inFlight": assumed, **description}
