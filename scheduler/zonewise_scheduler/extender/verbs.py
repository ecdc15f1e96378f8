"""The extender's decisions: the one node on which a pod is assumed.

kube-scheduler filters pod B before pod A is bound, and reports no failed binding. So filter returns exactly one node,
and assumes the pod on the zones that its kubelet is predicted to allocate. The pod is assumed until the kubelet's
report covers it, the pod is bound elsewhere or deleted, or the assume timeout expires. A pod that is filtered again is
decided anew.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.extender.formatting import OLD_VERDICT_ANNOTATION, VERDICT_ANNOTATION, format_verdict
from zonewise_scheduler.extender.types import MAX_EXTENDER_PRIORITY, ExtenderFilterResult, HostPriority
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.cache import ExtenderCache, ScheduleResult
    from zonewise_scheduler.extender.informers import Informers
    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.extender.types import CandidateNodes, ExtenderBindingArgs, Json

log = logging.getLogger(__name__)


class ExtenderVerbs:
    """See the module."""

    def __init__(self, cache: ExtenderCache, client: Client, metrics: ExtenderMetrics, informers: Informers) -> None:
        self._cache = cache
        self._client = client
        self._metrics = metrics
        self._informers = informers

    def filter(self, pod: Json, candidates: CandidateNodes) -> ExtenderFilterResult:
        """Return the one candidate on which the pod is assumed, or a reason for each. Raises FieldError."""
        if unsynced := self._informers.unsynced:
            return ExtenderFilterResult(error=f"zonewise: not known yet: {', '.join(unsynced)}")
        pending = _pending_pod(pod)
        if not may_be_aligned(pending.shape):
            return self._pass(candidates)
        result = self._cache.select_and_assume(pending, candidates, daemon_set=is_daemon_set_pod(pod))
        self._record(pending, result)
        return candidates.pass_nodes([result.node] if result.node else [], result.failed_nodes)

    def prioritize(self, pod: Json, candidates: CandidateNodes) -> list[HostPriority]:
        """Return a score for each candidate; the node that filter selected has the highest. Raises FieldError."""
        names = candidates.names
        if len(names) == 1:
            return [HostPriority(names[0], MAX_EXTENDER_PRIORITY)]
        scores = self._cache.scores(_pending_pod(pod).shape, names)
        return [
            HostPriority(name, score * MAX_EXTENDER_PRIORITY // 100) for name, score in zip(names, scores, strict=True)
        ]

    def bind(self, binding: ExtenderBindingArgs) -> None:
        """Bind a pod, with the zones of its predicted verdict as an annotation. Raises KubeError."""
        verdict = self._cache.predicted_verdict(binding.uid)
        annotations: dict[str, str] = {}
        if verdict is not None:
            annotations = dict.fromkeys((VERDICT_ANNOTATION, OLD_VERDICT_ANNOTATION), format_verdict(verdict))
        body: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": binding.name, "uid": binding.uid, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        self._client.create(PODS, body, namespace=binding.namespace, subresource="binding")

    def _pass(self, candidates: CandidateNodes) -> ExtenderFilterResult:
        self._metrics.count_filter_result("passed")
        if self._cache.allows_every_node:
            return candidates.pass_all()
        allowed, failed = self._cache.allowed_nodes(candidates.names)
        return candidates.pass_nodes(allowed, failed)

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
            reasons = sorted(set(result.failed_nodes.values()))
            log.info("pod=%s/%s node=none reason=%s", pod.namespace, pod.name, "; ".join(reasons[:3]))


def may_be_aligned(shape: PodShape) -> bool:
    """Tell whether any kubelet might align a pod: a Guaranteed one, or one with devices."""
    return shape.qos == "Guaranteed" or any(container.devices for container in shape.containers)


def is_daemon_set_pod(pod: Json) -> bool:
    """Tell whether a pod belongs to a DaemonSet."""
    owners: object = cast("Json", pod.get("metadata") or {}).get("ownerReferences")
    if not isinstance(owners, list):
        return False
    references = cast("list[object]", owners)
    return any(isinstance(owner, dict) and cast("Json", owner).get("kind") == "DaemonSet" for owner in references)


def _pending_pod(pod: Json) -> PendingPod:
    """Return the pod that is to be scheduled. Raises FieldError."""
    metadata: object = pod.get("metadata")
    if not isinstance(metadata, dict):
        raise FieldError("metadata", "not an object")
    fields = cast("Json", metadata)
    uid, namespace, name = (fields.get(field) for field in ("uid", "namespace", "name"))
    if not isinstance(uid, str) or not uid:
        raise FieldError("metadata.uid", f"not an ID: {uid!r:.80}")
    return PendingPod(uid, str(namespace or ""), str(name or ""), read_pod(pod))
