"""Binds the pods that a scheduling pass has placed. It uses its own threads, so one slow request does not delay others.

The pods of a namespace occupy only a share of the threads (thread_shares.py).

| response | the pod |
|---|---|
| success | is bound |
| 404 | is gone, so it is dropped |
| 409 | is read again: it is bound to our node, gone, or left to kube-scheduler |
| another 4xx status | is left to kube-scheduler: forgotten and requeued |
| none, 429, 5xx | may be bound: it remains assumed, and the request is repeated |
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.pod_annotations import PREDICTED_ADMISSION
from zonewise_common.kube.bindings import BINDING, binding
from zonewise_common.kube.errors import ApiError, Conflict, KubeError, NotFound, ServerError, TooManyRequests
from zonewise_common.kube.resources import PODS
from zonewise_common.service.delayed_tasks import DelayedTasks
from zonewise_scheduler.extender.formatting import OLD_VERDICT_ANNOTATION, format_verdict

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.extender.cache import ExtenderCache
    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.extender.placing.placer import PodPlacement

log = logging.getLogger(__name__)

Json = dict[str, Any]

THREADS = 16
"""Number of concurrent requests. An API server binds a pod in a few milliseconds."""
RETRY_PERIOD = 0.5
"""Seconds before a request without a definite response is repeated; the delay doubles each time."""
MAX_RETRY_PERIOD = 4.0
"""Maximum delay in seconds: once the API server is back, no pod waits longer."""
GIVE_UP = 90.0
"""Seconds after which a pod without a definite response is left to kube-scheduler,"""
GIVE_UP_SHARE = 0.75
"""or this fraction of assumeTimeout, if that is less, so that the pod is still assumed then."""


def bind_pod(client: Client, namespace: str, name: str, uid: str, node: str, verdict: Verdict | None) -> None:
    """Bind a pod, with the zones of its predicted verdict as annotations. Raises KubeError."""
    annotations: dict[str, str] = {}
    if verdict is not None:
        annotations = dict.fromkeys((PREDICTED_ADMISSION, OLD_VERDICT_ANNOTATION), format_verdict(verdict))
    client.create(PODS, binding(name, uid, node, annotations), namespace=namespace, subresource=BINDING)


def bound_node(client: Client, namespace: str, name: str, uid: str) -> str:
    """Return the node to which a pod is bound, or "" if it is unbound. Raises NotFound if it is gone, and KubeError."""
    pod = client.get(PODS, name, namespace=namespace)
    metadata: Json = pod["metadata"]
    spec: Json = pod.get("spec") or {}
    node = str(spec.get("nodeName") or "")
    if metadata.get("uid") != uid or (not node and metadata.get("deletionTimestamp") is not None):
        raise NotFound(404, "NotFound", f"Pod {namespace}/{name} with UID {uid} is gone")
    return node


class _Task:
    __slots__ = ("deadline", "period", "placement")

    def __init__(self, placement: PodPlacement, deadline: float) -> None:
        self.placement = placement
        self.period = RETRY_PERIOD
        self.deadline = deadline

    def next_delay(self, now: float) -> float | None:
        """Return the seconds until the next request, or None if it is time to give up."""
        delay = self.period
        self.period = min(2 * self.period, MAX_RETRY_PERIOD)
        return delay if now + delay < self.deadline else None


class Binder:
    """See the module. Works while the context is entered."""

    def __init__(
        self, client: Client, cache: ExtenderCache, metrics: ExtenderMetrics, *, assume_timeout: float
    ) -> None:
        """`assume_timeout`: seconds after which the cache forgets an assumed pod that is not bound."""
        self._client = client
        self._cache = cache
        self._metrics = metrics
        self._give_up = min(GIVE_UP, GIVE_UP_SHARE * assume_timeout)
        self._tasks = DelayedTasks(
            self._handle, threads=THREADS, name="binder", group=lambda task: task.placement.pod.namespace
        )

    def __enter__(self) -> Binder:
        self._tasks.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tasks.__exit__()

    def submit(self, placements: list[PodPlacement]) -> None:
        """Queue pods for binding."""
        deadline = time.monotonic() + self._give_up
        for placement in placements:
            self._tasks.submit(_Task(placement, deadline))

    def _handle(self, task: _Task) -> None:
        try:
            self._bind(task)
        except Exception:  # a bug must not end the loop
            log.exception("pod=%s/%s binding failed", task.placement.pod.namespace, task.placement.pod.name)
            self._end(task, "failed")

    def _bind(self, task: _Task) -> None:
        pod, node, verdict = task.placement
        try:
            bind_pod(self._client, pod.namespace, pod.name, pod.uid, node, verdict)
        except NotFound:
            self._end(task, "gone")
        except Conflict as error:
            self._look(task, error)
        except KubeError as error:
            self._end_or_retry(task, error)
        else:
            self._end(task, "bound")

    def _look(self, task: _Task, conflict: Conflict) -> None:
        """Read the pod to find the cause of the conflict."""
        pod, node, _ = task.placement
        try:
            present = bound_node(self._client, pod.namespace, pod.name, pod.uid)
        except NotFound:
            self._end(task, "gone")
        except KubeError as error:
            self._end_or_retry(task, error)
        else:
            if present != node:
                log.warning("pod=%s/%s node=%s not bound: %s", pod.namespace, pod.name, node, conflict)
            self._end(task, "bound" if present == node else "failed")

    def _end_or_retry(self, task: _Task, error: KubeError) -> None:
        definite = isinstance(error, ApiError) and not isinstance(error, (ServerError, TooManyRequests))
        pod, node, _ = task.placement
        log.warning("pod=%s/%s node=%s not bound: %s", pod.namespace, pod.name, node, error)
        delay = None if definite else task.next_delay(time.monotonic())
        if delay is None:
            self._end(task, "failed")
        else:
            self._tasks.submit(task, delay)

    def _end(self, task: _Task, result: str) -> None:
        pod, node, verdict = task.placement
        self._metrics.count_binding(result)
        self._cache.end_binding(task.placement, result)
        if result == "bound":
            log.info("pod=%s/%s node=%s bound predicted=%s", pod.namespace, pod.name, node, format_verdict(verdict))
