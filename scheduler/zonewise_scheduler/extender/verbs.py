"""The extender's decisions: the one node on which a pod is assumed.

kube-scheduler filters pod B before pod A is bound, and does not report failed bindings. So filter returns exactly one
node, and assumes the pod on the zones that its kubelet is predicted to allocate. The pod is assumed until the kubelet's
report covers it, the pod is bound elsewhere or deleted, or the assume timeout expires. If a pod is filtered again, it
is decided again.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.errors import Conflict
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.extender.binder import bind_pod, bound_node
from zonewise_scheduler.extender.failed_nodes import FailedNodes, RejectionCause
from zonewise_scheduler.extender.formatting import format_verdict
from zonewise_scheduler.extender.objects.pod_limits import may_be_aligned, size_problem
from zonewise_scheduler.extender.placing.placer import ScheduleResult
from zonewise_scheduler.extender.preemption.preemption_planner import read_preemptor
from zonewise_scheduler.extender.types import (
    MAX_EXTENDER_PRIORITY,
    ExtenderFilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
)
from zonewise_scheduler.nodes.assumed.types import PendingPod
from zonewise_scheduler.nodes.filters.constraints import scheduler_name
from zonewise_scheduler.quota.api.pod_group_key import read_group_key

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.cache import ExtenderCache
    from zonewise_scheduler.extender.informers import Informers
    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.extender.preemption.preemption import Preemption
    from zonewise_scheduler.extender.types import CandidateNodes, ExtenderBindingArgs, Json, ProposedVictims
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey

log = logging.getLogger(__name__)

TOO_LARGE = RejectionCause("PodTooLarge")
"""The pod has too many containers or requests to be judged."""


class NodeIsFull(Exception):
    """A node has too little left for a pod: kube-scheduler must try the pod again."""


class ExtenderVerbs:
    """See the module."""

    def __init__(
        self,
        cache: ExtenderCache,
        client: Client,
        metrics: ExtenderMetrics,
        informers: Informers,
        preemption: Preemption | None = None,
    ) -> None:
        """`preemption`: None disables preemption."""
        self._preemption = preemption
        self._cache = cache
        self._client = client
        self._metrics = metrics
        self._informers = informers

    def filter(self, pod: Json, candidates: CandidateNodes) -> ExtenderFilterResult:
        """Return the one candidate on which the pod is assumed, or a reason for every candidate. Raises FieldError."""
        if unsynced := self._informers.unsynced:
            return ExtenderFilterResult(error=f"zonewise: waits for the first list of {', '.join(unsynced)}")
        pending = _pending_pod(pod)
        if problem := size_problem(pending.shape):
            failed = FailedNodes(dict.fromkeys(candidates.names, problem), TOO_LARGE)
            self._record(pending, ScheduleResult("", None, failed))
            return candidates.pass_nodes([], failed)
        key = read_group_key(pod)
        result = None if key is None else self._cache.select_gang_member(pending, key, scheduler_name(pod), candidates)
        if result is not None:
            self._record(pending, result)
            nominated = "" if result.node else self._offer_preemption(pending, pod, candidates, key)
            return candidates.pass_nodes([result.node] if result.node else [], result.failed_nodes, nominated)
        if not may_be_aligned(pending.shape):
            return self._pass(candidates)
        while (delay := self._cache.burst_delay(pending)) > 0:
            time.sleep(delay)
        result = self._cache.select_and_assume(pending, candidates, daemon_set=is_daemon_set_pod(pod))
        self._record(pending, result)
        nominated = "" if result.node else self._offer_preemption(pending, pod, candidates)
        return candidates.pass_nodes([result.node] if result.node else [], result.failed_nodes, nominated)

    def prioritize(self, pod: Json, candidates: CandidateNodes) -> list[HostPriority]:
        """Return a score for each candidate; the node that filter selected has the highest. Raises FieldError."""
        names = candidates.names
        if len(names) == 1:
            return [HostPriority(names[0], MAX_EXTENDER_PRIORITY)]
        scores = self._cache.scores(_pending_pod(pod).shape, names)
        return [
            HostPriority(name, score * MAX_EXTENDER_PRIORITY // 100) for name, score in zip(names, scores, strict=True)
        ]

    def preempt(self, pod: Json, proposed: dict[str, ProposedVictims]) -> dict[str, MetaVictims]:
        """Return the victims that must end on each of the proposed nodes. Raises FieldError.

        They are kube-scheduler's own if no kubelet aligns the pod, or if preemption is disabled. For a single member of
        a gang no pod ends: the extender preempts for all members together, also on the proposed nodes.
        """
        pending, key = _pending_pod(pod), read_group_key(pod)
        is_member = key is not None and self._cache.request_gang(key, scheduler_name(pod))
        if not is_member and (self._preemption is None or not may_be_aligned(pending.shape)):
            return {node: _meta_victims(*victims) for node, victims in proposed.items()}
        preemptor = read_preemptor(pending, pod)
        if self._preemption is None or preemptor is None or self._informers.unsynced:
            return {}
        if is_member:
            self._preemption.offer(preemptor, lambda: list(proposed), key)
            return {}
        return {node: _meta_victims(uids) for node, uids in self._preemption.preempt(preemptor, proposed).items()}

    def bind(self, binding: ExtenderBindingArgs) -> None:
        """Bind a pod, with the zones of its predicted verdict as an annotation. Raises KubeError and NodeIsFull.

        A pod that is already bound to this node is not an error: kube-scheduler and a scheduling pass may bind the same
        pod. A pod that no kubelet aligns is rejected if the bindings of scheduling passes have left too little.
        """
        reason = self._cache.reserve(binding.uid, binding.node)
        if reason is not None:
            raise NodeIsFull(reason)
        verdict = self._cache.predicted_verdict(binding.uid)
        try:
            bind_pod(self._client, binding.namespace, binding.name, binding.uid, binding.node, verdict)
        except Conflict:
            if bound_node(self._client, binding.namespace, binding.name, binding.uid) != binding.node:
                raise

    def _offer_preemption(
        self, pending: PendingPod, pod: Json, candidates: CandidateNodes, group: GroupKey | None = None
    ) -> str:
        """Let a rejected pod, or its gang, preempt others; return the node on which it waits for victims, if any."""
        preemptor = read_preemptor(pending, pod)
        if self._preemption is None or preemptor is None:
            return ""
        self._preemption.offer(preemptor, lambda: candidates.names, group)
        return self._preemption.nominated_node(pending.uid)

    def _pass(self, candidates: CandidateNodes) -> ExtenderFilterResult:
        self._metrics.count_filter_result("passed")
        if self._cache.allows_every_node:
            return candidates.pass_all()
        allowed, failed = self._cache.allowed_nodes(candidates.names)
        return candidates.pass_nodes(allowed, FailedNodes(failed))

    def _record(self, pod: PendingPod, result: ScheduleResult) -> None:
        if result.node and result.verdict is not None:
            self._metrics.count_filter_result("assumed")
            log.info("pod=%s/%s node=%s predicted=%s", pod.namespace, pod.name, result.node,
                     format_verdict(result.verdict))  # fmt: skip
        elif result.node:
            self._metrics.count_filter_result("unreported")
            log.info("pod=%s/%s node=%s predicted=unknown", pod.namespace, pod.name, result.node)
        else:
            self._metrics.count_filter_result("rejected")
            if result.failed_nodes.cause is not None:
                self._metrics.count_rejection(result.failed_nodes.cause)
            reasons = "; ".join(result.failed_nodes.messages[:3])
            log.info("pod=%s/%s node=none reason=%s", pod.namespace, pod.name, reasons)


def is_daemon_set_pod(pod: Json) -> bool:
    """Return whether a pod belongs to a DaemonSet."""
    owners: object = cast("Json", pod.get("metadata") or {}).get("ownerReferences")
    if not isinstance(owners, list):
        return False
    references = cast("list[object]", owners)
    return any(isinstance(owner, dict) and cast("Json", owner).get("kind") == "DaemonSet" for owner in references)


def _meta_victims(uids: tuple[str, ...], violations: int = 0) -> MetaVictims:
    """Return victims in kube-scheduler's format; the extender's own victims violate no budget."""
    return MetaVictims([MetaPod(uid) for uid in uids], violations)


def _pending_pod(pod: Json) -> PendingPod:
    """Return the pod to be scheduled. Raises FieldError."""
    metadata: object = pod.get("metadata")
    if not isinstance(metadata, dict):
        raise FieldError("metadata", "not an object")
    fields = cast("Json", metadata)
    uid, namespace, name = (fields.get(field) for field in ("uid", "namespace", "name"))
    if not isinstance(uid, str) or not uid:
        raise FieldError("metadata.uid", f"not an ID: {uid!r:.80}")
    return PendingPod(uid, str(namespace or ""), str(name or ""), read_pod(pod))
