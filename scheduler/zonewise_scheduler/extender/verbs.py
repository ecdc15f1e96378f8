"""What the extender decides: which one node a pod may have.

kube-scheduler filters pod B before it has bound pod A, and tells nobody when a binding fails. So the node is promised
at filter: exactly one is returned, and the pod is charged to the zones that it is foretold to get, until the kubelet's
report has it, it lands elsewhere, it is gone, or the time for a binding is over. A pod that is filtered again is
decided again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.extender.formatting import VERDICT_ANNOTATION, format_verdict
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
        self._cluster = cache
        self._client = client
        self._meters = metrics
        self._watching = informers

    def filter(self, pod: Json, candidates: CandidateNodes) -> ExtenderFilterResult:
        """Choose among the nodes asked about. Raises FieldError."""
        if missing := self._watching.unsynced:
            return ExtenderFilterResult(error=f"zonewise: not known yet: {', '.join(missing)}")
        promise = _promise(pod)
        if not may_be_aligned(promise.shape):
            return self._untouched(candidates)
        choice = self._cluster.select_and_assume(promise, candidates, daemon_set=is_daemon_set_pod(pod))
        self._record(promise, choice)
        return candidates.pass_nodes([choice.node] if choice.node else [], choice.failed_nodes)

    def prioritize(self, pod: Json, candidates: CandidateNodes) -> list[HostPriority]:
        """Score nodes; the one that filter chose has the most. Raises FieldError."""
        names = candidates.names
        if len(names) == 1:
            return [HostPriority(names[0], MAX_EXTENDER_PRIORITY)]
        scores = self._cluster.scores(_promise(pod).shape, names)
        return [
            HostPriority(name, score * MAX_EXTENDER_PRIORITY // 100) for name, score in zip(names, scores, strict=True)
        ]

    def bind(self, binding: ExtenderBindingArgs) -> None:
        """Bind a pod, and write down which zones it is foretold to get. Raises KubeError."""
        verdict = self._cluster.predicted_verdict(binding.uid)
        annotations = {VERDICT_ANNOTATION: format_verdict(verdict)} if verdict is not None else {}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": binding.name, "uid": binding.uid, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        self._client.create(PODS, body, namespace=binding.namespace, subresource="binding")

    def _untouched(self, asked: CandidateNodes) -> ExtenderFilterResult:
        self._meters.count_decision("untouched")
        if self._cluster.allows_every_node:
            return asked.pass_all()
        passing, failed = self._cluster.allowed_nodes(asked.names)
        return asked.pass_nodes(passing, failed)

    def _record(self, promise: PendingPod, choice: ScheduleResult) -> None:
        if choice.node and choice.verdict is not None:
            self._meters.count_decision("placed")
            log.info("pod=%s/%s node=%s foretold=%s", promise.namespace, promise.name, choice.node,
                     format_verdict(choice.verdict))  # fmt: skip
        elif choice.node:
            self._meters.count_decision("blind")
            log.info("pod=%s/%s node=%s foretold=unknown", promise.namespace, promise.name, choice.node)
        else:
            self._meters.count_decision("refused")
            reasons = sorted(set(choice.failed_nodes.values()))
            log.info("pod=%s/%s node=none reason=%s", promise.namespace, promise.name, "; ".join(reasons[:3]))


def may_be_aligned(shape: PodShape) -> bool:
    """Tell whether any kubelet might align a pod: those with devices, and Guaranteed ones."""
    return shape.qos == "Guaranteed" or any(container.devices for container in shape.containers)


def is_daemon_set_pod(pod: Json) -> bool:
    """Tell whether a pod is a DaemonSet's."""
    owners: object = cast("Json", pod.get("metadata") or {}).get("ownerReferences")
    if not isinstance(owners, list):
        return False
    found = cast("list[object]", owners)
    return any(isinstance(owner, dict) and cast("Json", owner).get("kind") == "DaemonSet" for owner in found)


def _promise(pod: Json) -> PendingPod:
    """Return what is to be promised. Raises FieldError."""
    metadata: object = pod.get("metadata")
    if not isinstance(metadata, dict):
        raise FieldError("metadata", "not an object")
    told = cast("Json", metadata)
    uid, namespace, name = (told.get(field) for field in ("uid", "namespace", "name"))
    if not isinstance(uid, str) or not uid:
        raise FieldError("metadata.uid", f"not an ID: {uid!r:.80}")
    return PendingPod(uid, str(namespace or ""), str(name or ""), read_pod(pod))
