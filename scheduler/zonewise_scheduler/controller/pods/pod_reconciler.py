"""The writes that ungate, bind and end the pods of admitted workloads as pods and Workloads change."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.pods.arrival_gate import ArrivalGate
from zonewise_scheduler.controller.pods.managed_pods import ManagedPods
from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.controller.pods.pod_binder import BIND, PodBinder
from zonewise_scheduler.controller.pods.pod_rejections import PodRejections
from zonewise_scheduler.controller.pods.predicted_admissions import with_predictions
from zonewise_scheduler.controller.pods.stray_pods import end_stray_pod, find_stray_pods, waiting_pods
from zonewise_scheduler.controller.pods.unevaluated import unevaluated_pod_sets
from zonewise_scheduler.controller.pods.ungate import UngateContext, find_ungatings, ungate_write
from zonewise_scheduler.controller.workloads.queue_annotations import binds_pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.pods.pod_context import PodContext
    from zonewise_scheduler.controller.pods.ungate import Ungating
    from zonewise_scheduler.controller.types import Json, Write

log = logging.getLogger(__name__)

PAUSE = 60.0
"""Seconds before a failed patch is tried again, unless its pod or Workload changes earlier."""


class PodReconciler:
    """Turns observed pods into writes."""

    def __init__(self) -> None:
        self.rejections = PodRejections()
        self.binder = PodBinder()
        self._pods = ManagedPods()
        self._uids: dict[tuple[str, str], tuple[str, str]] = {}
        """UID and workload key of each managed pod, by namespace and name."""
        self._gate = ArrivalGate(self._pods)
        self._dirty: dict[str, None] = {}
        self._may_have_strays: set[str] = set()
        """Workloads that have changed, or with a pod that a scheduler may bind since the last check."""
        self._ending: set[str] = set()
        """UIDs of the stray pods that are being ended."""
        self._failed: dict[str, set[str]] = {}
        """UIDs of the pods with a failed write, by workload. They remain held until a change, or for PAUSE."""
        self._retry_times: dict[str, float] = {}
        """Time at which the failed writes of each of these workloads are tried again."""
        self._avoided: set[tuple[str, str]] = set()

    def observe(self, namespace: str, name: str, pod: ManagedPod | None) -> bool:
        """Record a pod from a watch and return whether it was just rejected; None: deleted, or without a workload."""
        uid, workload = self._uids.pop((namespace, name), ("", ""))
        if uid and (pod is None or pod.uid != uid):
            self._pods.remove(uid)
            self._gate.forget(uid)
            self.binder.remove(uid)
            self._ending.discard(uid)
            self._retry(workload, uid)
        if pod is not None:
            self._uids[namespace, name] = pod.uid, pod.workload_key
            old = self._pods.observed(pod.uid)
            is_rejected = self.rejections.observe(old, pod)
            if pod.spec is not None and (old is None or old.spec is None):
                self._may_have_strays.add(pod.workload_key)
            self._pods.observe(pod)
            self.binder.observe(pod)
            self._retry(pod.workload_key, pod.uid)
            return is_rejected
        return False

    @property
    def retry_at(self) -> float:
        """Return when the next failed write is tried again; infinite: there is none."""
        return min(self._retry_times.values(), default=inf)

    def of_workload(self, key: str) -> Sequence[ManagedPod]:
        """Return the pods of a Workload; `key`: its namespace and name."""
        return self._pods.of_workload(key)

    def mark_dirty(self, workloads: Iterable[str]) -> None:
        """Check the pods of these workloads in the next step."""
        for key in workloads:
            self._failed.pop(key, None)
            self._retry_times.pop(key, None)
            self._dirty[key] = None
            self._may_have_strays.add(key)
            self.binder.mark_workload(key)

    def mark_nodes(self, nodes: Iterable[str], now: float) -> None:
        """Check the pods that wait for these nodes, which have changed."""
        names = list(nodes)
        self.binder.mark_nodes(names)
        waiting = {pod.workload_key for name in names for pod in self._pods.on_node(name) if pod.spec is not None}
        self._may_have_strays |= waiting
        self._dirty.update(dict.fromkeys(waiting))
        self._dirty.update(dict.fromkeys(self._gate.take_due(names, now)))

    def forget_marks(self) -> None:
        """Drop pending checks and counted rejections, because this replica does not lead."""
        self._dirty.clear()
        self._may_have_strays.clear()
        self.rejections.clear()

    def writes(self, context: PodContext) -> list[Write]:
        """Return the patches of the pods to end or to ungate now. From then on, the latter count as ungated."""
        self.mark_dirty([key for key, at in self._retry_times.items() if at <= context.now])
        dirty, self._dirty = self._dirty, {}
        writes: list[Write] = []
        for key in dirty:
            try:
                writes.extend(self._writes_of(key, context))  # patches before an error are kept: their pods are assumed
            except FieldError as error:
                log.warning("workload=%s the pods remain held: %s", key, error)
            except Exception:  # a defect that one workload reveals must not block the writes of others
                log.exception("workload=%s the pods remain held", key)
        return writes

    def _writes_of(self, key: str, context: PodContext) -> Iterator[Write]:
        """Yield the patches of a workload's pods to end or to ungate now. Raises FieldError."""
        workload, pods = context.workloads.get(key), self._pods.of_workload(key)
        may_have_strays = key in self._may_have_strays
        self._may_have_strays.discard(key)
        if workload is None:
            return
        if may_have_strays:
            yield from self._end_strays(key, workload, pods, context)
        if not any(pod.is_held for pod in pods):
            return
        ungatings = find_ungatings(workload, pods, UngateContext(context.node_names))
        ungatings = [each for each in ungatings if each.pod.uid not in self._failed.get(key, ())]
        ungatings = self._without_avoided(key, ungatings, pods, context)
        for ungating in _annotated(ungatings, workload, pods, context) if ungatings else []:
            if self._gate.lets_pass(ungating, context):
                self._pods.assume(ungating)
                yield ungate_write(ungating)

    def _end_strays(self, key: str, workload: Json, pods: Sequence[ManagedPod], context: PodContext) -> Iterator[Write]:
        """Yield the patches that end stray pods, and note closed nodes for which pods wait. Raises FieldError."""
        waiting = waiting_pods(workload, pods)
        if not waiting:
            return
        for pod in find_stray_pods(workload, waiting, context.node_names):
            if pod.uid not in self._ending and pod.uid not in self._failed.get(key, ()):
                self._ending.add(pod.uid)
                yield end_stray_pod(pod, context.now)
        self._note_deserted(
            key, _closed_nodes(key, ((pod.pod_set, pinned_node(pod)) for pod in waiting), context), pods
        )

    def take_avoided(self) -> set[tuple[str, str]]:
        """Return the workloads whose pods were held since the last call to avoid a node, each with that node."""
        avoided, self._avoided = self._avoided, set()
        return avoided

    def end_write(self, write: Write, now: float, *, done: bool) -> None:
        """Record the outcome of a write of this class. A failed patch is tried again after a change, or after PAUSE."""
        if write.purpose == BIND:
            self.binder.end_write(write, done=done)
        elif not done:
            self._pods.forget(write.uid)
            self._ending.discard(write.uid)
            self._failed.setdefault(write.workload, set()).add(write.uid)
            self._retry_times[write.workload] = now + PAUSE

    def _without_avoided(
        self, key: str, ungatings: Sequence[Ungating], pods: Sequence[ManagedPod], context: PodContext
    ) -> list[Ungating]:
        """Return ungatings without those to closed nodes, and to avoided nodes without a pod. Raises FieldError.

        No scheduler binds further pods to a closed node, which is replaced once no pod of the workload runs there. The
        pods left out are checked again in each step, until the planner chooses another node or the condition ends.
        """
        nodes = {(each.pod.pod_set, each.pin.node) for each in ungatings if each.pin.node}
        closed = _closed_nodes(key, nodes, context)
        avoided = {node for pod_set, node in nodes if context.avoids(key, pod_set, node)}
        if not closed and not avoided:
            return list(ungatings)
        avoided -= {pinned_node(pod) for pod in pods if not pod.is_held and not pod.is_terminated}
        if avoided or closed:
            self._avoided |= {(key, node) for node in avoided}
            self._note_deserted(key, closed, pods)
            self._dirty[key] = None
        return [each for each in ungatings if each.pin.node not in avoided | closed]

    def _note_deserted(self, key: str, closed: Set[str], pods: Sequence[ManagedPod]) -> None:
        """Let closed nodes on which no pod of a workload runs be replaced."""
        occupied = {pod.node for pod in pods if not pod.is_terminated and not pod.terminating}
        self._avoided |= {(key, node) for node in closed - occupied}

    def _retry(self, workload: str, uid: str) -> None:
        """Check a pod in the next step, even if one of its writes has failed."""
        self._dirty[workload] = None
        if failed := self._failed.get(workload):
            failed.discard(uid)
            if not failed:
                del self._failed[workload]
                del self._retry_times[workload]


def _closed_nodes(key: str, nodes: Iterable[tuple[str, str]], context: PodContext) -> set[str]:
    """Return the nodes that are closed to the pod sets of a workload with which they are paired."""
    return {node for pod_set, node in nodes if context.is_closed(key, pod_set, node)}


def _annotated(
    ungatings: Sequence[Ungating], workload: Json, pods: Sequence[ManagedPod], context: PodContext
) -> list[Ungating]:
    """Return ungatings completed with the annotations of their pods."""
    predicted = with_predictions(ungatings, pods, context.predicted(ungatings[0].pod.workload_key))
    if not binds_pods(workload, context.find):
        return predicted
    reasons = unevaluated_pod_sets(workload)
    return [each._replace(left_to_kube_scheduler=reasons.get(each.pod.pod_set, "")) for each in predicted]
