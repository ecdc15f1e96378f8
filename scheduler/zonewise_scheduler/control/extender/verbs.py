"""What the extender decides: which one node a pod may have.

kube-scheduler filters pod B before it has bound pod A, and tells nobody when a binding fails. So the node is promised
at filter: exactly one is returned, and the pod is charged to the zones that it is foretold to get, until the kubelet's
report has it, it lands elsewhere, it is gone, or the time for a binding is over. A pod that is filtered again is
decided again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from zonewise.kube.resources import PODS
from zonewise_scheduler.control.extender.wire import MOST_SCORE, FilterResult, HostPriority
from zonewise_scheduler.control.foretold import ANNOTATION, foretold
from zonewise_scheduler.fit.ledger.values import Promise
from zonewise_scheduler.fit.model.fields import FieldError
from zonewise_scheduler.fit.read.pod import read_pod

if TYPE_CHECKING:
    from zonewise.kube.client import Client
    from zonewise_scheduler.control.cluster import Choice, Cluster
    from zonewise_scheduler.control.extender.wire import Asked, BindingArguments, Json
    from zonewise_scheduler.control.meters import Meters
    from zonewise_scheduler.control.watching import Watching
    from zonewise_scheduler.fit.model.pod import PodShape

log = logging.getLogger(__name__)


class ExtenderVerbs:
    """See the module."""

    def __init__(self, cluster: Cluster, client: Client, meters: Meters, watching: Watching) -> None:
        self._cluster = cluster
        self._client = client
        self._meters = meters
        self._watching = watching

    def filter(self, pod: Json, asked: Asked) -> FilterResult:
        """Choose among the nodes asked about. Raises FieldError."""
        if missing := self._watching.missing:
            return FilterResult(error=f"zonewise: not known yet: {', '.join(missing)}")
        promise = _promise(pod)
        if not asks_of_zones(promise.shape):
            return self._untouched(asked)
        choice = self._cluster.choose(promise, asked, daemon=is_daemon(pod))
        self._record(promise, choice)
        return asked.only([choice.node] if choice.node else [], choice.refusals)

    def prioritize(self, pod: Json, asked: Asked) -> list[HostPriority]:
        """Score nodes; the one that filter chose has the most. Raises FieldError."""
        names = asked.names
        if len(names) == 1:
            return [HostPriority(names[0], MOST_SCORE)]
        scores = self._cluster.scores(_promise(pod).shape, names)
        return [HostPriority(name, score * MOST_SCORE // 100) for name, score in zip(names, scores, strict=True)]

    def bind(self, binding: BindingArguments) -> None:
        """Bind a pod, and write down which zones it is foretold to get. Raises KubeError."""
        verdict = self._cluster.promised(binding.uid)
        annotations = {ANNOTATION: foretold(verdict)} if verdict is not None else {}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": binding.name, "uid": binding.uid, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        self._client.create(PODS, body, namespace=binding.namespace, subresource="binding")

    def _untouched(self, asked: Asked) -> FilterResult:
        self._meters.decided("untouched")
        if self._cluster.trusts_all:
            return asked.untouched()
        passing, failed = self._cluster.trusted(asked.names)
        return asked.only(passing, failed)

    def _record(self, promise: Promise, choice: Choice) -> None:
        if choice.node and choice.verdict is not None:
            self._meters.decided("placed")
            log.info("pod=%s/%s node=%s foretold=%s", promise.namespace, promise.name, choice.node,
                     foretold(choice.verdict))  # fmt: skip
        elif choice.node:
            self._meters.decided("blind")
            log.info("pod=%s/%s node=%s foretold=unknown", promise.namespace, promise.name, choice.node)
        else:
            self._meters.decided("refused")
            reasons = sorted(set(choice.refusals.values()))
            log.info("pod=%s/%s node=none reason=%s", promise.namespace, promise.name, "; ".join(reasons[:3]))


def asks_of_zones(shape: PodShape) -> bool:
    """Tell whether any kubelet might align a pod: those with devices, and Guaranteed ones."""
    return shape.qos == "Guaranteed" or any(container.devices for container in shape.containers)


def is_daemon(pod: Json) -> bool:
    """Tell whether a pod is a DaemonSet's."""
    owners: object = cast("Json", pod.get("metadata") or {}).get("ownerReferences")
    if not isinstance(owners, list):
        return False
    found = cast("list[object]", owners)
    return any(isinstance(owner, dict) and cast("Json", owner).get("kind") == "DaemonSet" for owner in found)


def _promise(pod: Json) -> Promise:
    """Return what is to be promised. Raises FieldError."""
    metadata: object = pod.get("metadata")
    if not isinstance(metadata, dict):
        raise FieldError("metadata", "not an object")
    told = cast("Json", metadata)
    uid, namespace, name = (told.get(field) for field in ("uid", "namespace", "name"))
    if not isinstance(uid, str) or not uid:
        raise FieldError("metadata.uid", f"not an ID: {uid!r:.80}")
    return Promise(uid, str(namespace or ""), str(name or ""), read_pod(pod))
