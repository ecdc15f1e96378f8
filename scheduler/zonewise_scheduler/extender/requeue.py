"""Requeues unschedulable pods in kube-scheduler once a node's zones may admit them.

At any cluster event, kube-scheduler requeues a pod that an extender rejected (pkg/scheduler/schedule_one.go,
findNodesThatFitPod). But zones become free a moment after the event: the kubelet releases the resources of a pod, then
the agent reports it. Since kube-scheduler does not watch reports, the pod would wait for the flush after five minutes.
The requeuer therefore sets a condition on the pod. With queueing hints (on since Kubernetes 1.32), any change of a pod
is such an event for it.

After a start, it requeues one pod of each scheduler, which shows which schedulers call the filter.

While the API server is unavailable, due pods remain due: the cache returns each only once until its backoff is over.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import (
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from zonewise_common.kube.events import timestamp, utc_now
from zonewise_common.kube.resources import PODS

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.cache import ExtenderCache
    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.nodes.assumed.types import PendingPod

log = logging.getLogger(__name__)

CONDITION = "zonewise.dev/ZonesFree"
"""Type of the condition that is set on a pod."""
PERIOD = 0.25
"""Seconds between checks for pods to requeue."""
RETRY_PERIOD = 1.0
"""Seconds before a request without a definite response is repeated."""
MAX_FAILURES = 2
"""Number of such requests in a row after which all others wait. A single one may be due to its pod, for example if an
admission webhook of its namespace does not respond."""
_STOP_TIMEOUT = 1.0
"""Seconds that the thread may take to stop; if it waits for an API server longer, it is left behind."""


class Requeuer:
    """Requeues pods, in a thread that runs while the context is entered."""

    def __init__(self, client: Client, cache: ExtenderCache, metrics: ExtenderMetrics) -> None:
        self._client = client
        self._cache = cache
        self._metrics = metrics
        self._due: dict[str, PendingPod] = {}
        """Pods by UID, in the order of their next requests."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="requeue", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        while not self._stopping.wait(RETRY_PERIOD if self._due else PERIOD):
            try:
                self._due |= {pod.uid: pod for pod in self._cache.pods_to_requeue()}
                self._requeue_due()
            except Exception:  # a bug must not end the loop
                log.exception("requeueing pods failed")

    def _requeue_due(self) -> None:
        """Requeue the due pods. Those whose requests must be repeated remain due, after the others."""
        failures = 0
        for uid, pod in list(self._due.items()):
            if self._stopping.is_set() or failures == MAX_FAILURES:
                return
            del self._due[uid]
            if self._requeue(pod):
                failures = 0
            else:
                failures += 1
                self._due[uid] = pod

    def _requeue(self, pod: PendingPod) -> bool:
        """Requeue a pod if it still exists; return False if the request must be repeated."""
        now = timestamp(utc_now())
        condition = {
            "type": CONDITION,
            "status": "True",
            "reason": "NodeChanged",
            "message": "zonewise: the kubelet of a node may admit this pod now",
            "lastProbeTime": now,
            "lastTransitionTime": now,
        }
        # with the UID, the patch conflicts if the pod was deleted and recreated
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            self._client.patch(
                PODS, pod.name, body, kind=PatchKind.STRATEGIC, namespace=pod.namespace, subresource="status"
            )
        except (NotFound, Conflict):  # the pod was deleted, or recreated under its name
            self._cache.drop_pod(pod.uid)
        except KubeError as error:
            log.warning("pod=%s/%s cannot be requeued: %s", pod.namespace, pod.name, error)
            return not isinstance(error, (TransportError, ServerError, TooManyRequests))
        else:
            self._metrics.count_requeued()
            log.debug("pod=%s/%s requeued", pod.namespace, pod.name)
        return True
