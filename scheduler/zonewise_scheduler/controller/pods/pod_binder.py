"""Bind the pods of queues for which the controller binds, as pods, Workloads and nodes change.

A pod is a candidate while it is neither gated, bound nor deleted. So a candidate is pinned, and kube-scheduler can bind
it to no other node. The first binding counts, and a second one fails.

| candidate | next |
|---|---|
| its Workload may not run, or its queue does not request binding | nothing, until these change |
| a field is not evaluated, or its node is not assigned | left to kube-scheduler, until it changes |
| anti-affinity terms of other pods may exclude it | left, until terms change |
| its node is not ready, or the pod does not fit | left, until the node changes |
| otherwise | a Binding, and assumed on its node |

A Binding carries the UID as its precondition, but no resource version. The fields that are evaluated can no longer
change. With a resource version, each status update by kube-scheduler would make the binding fail.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.bindings import BINDING, binding
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.controller.pods.assumed_pods import AssumedPods
from zonewise_scheduler.controller.pods.awaited_changes import AwaitedChanges
from zonewise_scheduler.controller.pods.bind_rules import ANTI_AFFINITY, UNASSIGNED, BindVerdict, judge_binding
from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.controller.pods.ungate import assigned_nodes
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.queue_annotations import binds_pods
from zonewise_scheduler.controller.workloads.status import may_run
from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityIndex
from zonewise_scheduler.nodes.node.node_info import add_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.pods.pod_context import PodContext
    from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityTerm
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

log = logging.getLogger(__name__)

BIND = "bind"
"""Purpose of the writes of this module."""


class PodBinder:
    """Writes Bindings for candidates. See the module docstring."""

    def __init__(self) -> None:
        self.left: Counter[str] = Counter()
        """Number of pods that were left to kube-scheduler, by reason."""
        self._candidates: dict[str, ManagedPod] = {}
        """Candidates by UID."""
        self._by_workload: dict[str, dict[str, None]] = {}
        self._dirty: dict[str, None] = {}
        self._assumed = AssumedPods()
        self._anti_affinity = AntiAffinityIndex()
        self._waiting = AwaitedChanges()
        """Candidates by the node whose change may change the verdict; "": by the terms of other pods."""
        self._reasons: dict[str, str] = {}
        """Reasons of the candidates that were left to kube-scheduler, by UID."""

    # --- inputs

    def observe(self, pod: ManagedPod) -> None:
        """Record a pod of a Workload."""
        if pod.node or pod.is_terminated:
            self._assumed.forget(pod.uid)
        if pod.spec is None or pod.is_terminated:
            self._drop(pod.uid)
            return
        if (old := self._candidates.get(pod.uid)) is not None and old.workload_key != pod.workload_key:
            self._drop(pod.uid)
        self._candidates[pod.uid] = pod
        self._by_workload.setdefault(pod.workload_key, {})[pod.uid] = None
        self._dirty[pod.uid] = None

    def remove(self, uid: str) -> None:
        """Record the deletion of a pod."""
        self._assumed.forget(uid)
        self._drop(uid)

    def set_terms(self, pod: str, terms: tuple[AntiAffinityTerm, ...]) -> None:
        """Set the required anti-affinity of any pod, by its namespace and name; empty: none, or the pod was deleted."""
        if self._anti_affinity.set_terms(pod, terms):
            self._dirty.update(self._waiting.take(""))

    def mark_workload(self, key: str) -> None:
        """Check the candidates of a Workload in the next step."""
        self._dirty.update(self._by_workload.get(key, {}))

    def mark_nodes(self, names: Iterable[str]) -> None:
        """Check the candidates that wait for these nodes."""
        for name in names:
            self._dirty.update(self._waiting.take(name))

    def mark_all(self) -> None:
        """Check all candidates, because queues have changed or this replica has started to lead."""
        self._dirty.update(dict.fromkeys(self._candidates))

    def end_write(self, write: Write, *, done: bool) -> None:
        """Record the outcome of a binding. A pod whose binding failed is checked again once it changes."""
        if not done and (node := self._assumed.forget(write.uid)):
            self.mark_nodes([node])

    # --- outputs

    @property
    def waiting(self) -> int:
        """Return the number of pods that wait for a change of a node or of other pods' anti-affinity terms."""
        return len(self._waiting)

    def writes(self, context: PodContext, claim: Callable[[Write], bool]) -> list[Write]:
        """Return the Bindings to write now; `claim` returns False if another write of the pod is pending."""
        dirty, self._dirty = self._dirty, {}
        step = _BindingStep(context, self._assumed)
        writes: list[Write] = []
        for uid in dirty:
            try:
                write = self._next_write(uid, step, claim)
            except Exception:  # a defect that one pod reveals must not block the bindings of others
                log.exception("pod uid=%s is left to kube-scheduler", uid)
                continue
            if write is not None:
                writes.append(write)
        return writes

    def _next_write(self, uid: str, step: _BindingStep, claim: Callable[[Write], bool]) -> Write | None:
        """Return the Binding of a pod; None: it cannot be written now."""
        pod = self._candidates.get(uid)
        if pod is None or uid in self._assumed or not step.binds(pod.workload_key):
            return None
        node, verdict = self._judge(pod, step)
        if verdict.reason:
            self._leave(pod, node, verdict)
            return None
        write = bind_write(pod, node)
        if not claim(write):
            self._dirty[uid] = None
            return None
        self._reasons.pop(uid, None)
        step.assume(uid, node, verdict)
        return write

    def _judge(self, pod: ManagedPod, step: _BindingStep) -> tuple[str, BindVerdict]:
        try:
            node = pinned_node(pod)
        except FieldError:
            node = ""
        if node not in step.assigned(pod.workload_key).get(pod.pod_set, ()):
            return node, BindVerdict(reason=UNASSIGNED)
        verdict = judge_binding(pod, step.node_info(node))
        if not verdict.reason and self._anti_affinity.may_exclude(pod.namespace, pod.labels):
            return node, BindVerdict(reason=ANTI_AFFINITY)
        return node, verdict

    def _leave(self, pod: ManagedPod, node: str, verdict: BindVerdict) -> None:
        if verdict.depends_on_node:
            self._waiting.add(node, pod.uid)
        elif verdict.reason == ANTI_AFFINITY:
            self._waiting.add("", pod.uid)
        if self._reasons.get(pod.uid) != verdict.reason:
            self._reasons[pod.uid] = verdict.reason
            self.left[verdict.reason] += 1
            log.info("pod=%s/%s node=%s left to kube-scheduler: %s", pod.namespace, pod.name, node,
                     verdict.message or verdict.reason)  # fmt: skip

    def _drop(self, uid: str) -> None:
        self._reasons.pop(uid, None)
        self._dirty.pop(uid, None)
        self._waiting.remove(uid)
        pod = self._candidates.pop(uid, None)
        if pod is not None:
            uids = self._by_workload[pod.workload_key]
            del uids[uid]
            if not uids:
                del self._by_workload[pod.workload_key]


class _BindingStep:
    """Results that several pods of one step share."""

    def __init__(self, context: PodContext, assumed: AssumedPods) -> None:
        self._context = context
        self._assumed = assumed
        self._binds: dict[str, bool] = {}
        self._assigned: dict[str, Mapping[str, frozenset[str]]] = {}
        self._infos: dict[str, NodeInfo | None] = {}

    def binds(self, key: str) -> bool:
        """Return whether the controller may bind pods of a Workload."""
        if key not in self._binds:
            workload = self._context.workloads.get(key)
            self._binds[key] = workload is not None and may_run(workload) and binds_pods(workload, self._context.find)
        return self._binds[key]

    def assigned(self, key: str) -> Mapping[str, frozenset[str]]:
        """Return the assigned nodes of a Workload, by pod set."""
        if key not in self._assigned:
            try:
                self._assigned[key] = assigned_nodes(self._context.workloads[key], self._context.node_names)
            except FieldError:
                self._assigned[key] = {}
        return self._assigned[key]

    def node_info(self, name: str) -> NodeInfo | None:
        """Return a node that includes all its pods, observed and assumed."""
        if name not in self._infos:
            info = self._context.node_info(name)
            if info is not None:
                info = info._replace(requested=add_resources(info.requested, self._assumed.requested(name)))
            self._infos[name] = info
        return self._infos[name]

    def assume(self, uid: str, node: str, verdict: BindVerdict) -> None:
        """Count a pod on its node from now on."""
        requests, info = verdict.constraints.requests, self._infos[node]
        self._assumed.assume(uid, node, requests)
        if info is not None:
            self._infos[node] = info._replace(requested=add_resources(info.requested, requests))


def bind_write(pod: ManagedPod, node: str) -> Write:
    """Return the Binding of a pod."""
    key = ObjectKey(PODS, pod.namespace, pod.name)
    return Write(Verb.CREATE, key, BIND, binding(pod.name, pod.uid, node), BINDING, pod.uid, workload=pod.workload_key)
