"""Wakes pods that wait in kube-scheduler, once a node's zones may take them.

A pod that an extender refused is tried again at any event that kube-scheduler hears of (schedule_one.go,
findNodesThatFitPod). Zones become free a moment after such an event, when the kubelet has let a pod go and its agent
has said so, and of that kube-scheduler hears nothing: the pod would wait for the flush after five minutes. So the pod
itself is changed, by a condition that says what has happened; with queueing hints (on since Kubernetes 1.32) any change
of a pod counts.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, KubeError, NotFound
from zonewise_common.kube.resources import PODS

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.cache import ExtenderCache
    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.nodes.assumed.types import PendingPod

log = logging.getLogger(__name__)

CONDITION = "zonewise.dev/ZonesFree"
"""Type of the condition of a pod."""
PERIOD = 0.25
"""Seconds between looks at who could be woken."""
_STOP_TIMEOUT = 1.0
"""Seconds that its end may take: a thread that waits for an API server is then left behind."""


class Requeuer:
    """Wakes pods, in a thread of its own as long as it is entered."""

    def __init__(self, client: Client, cache: ExtenderCache, metrics: ExtenderMetrics) -> None:
        self._client = client
        self._cluster = cache
        self._meters = metrics
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waking", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        while not self._stopping.wait(PERIOD):
            try:
                for pod in self._cluster.pods_to_requeue():
                    self._wake(pod)
            except Exception:  # a fault of ours must not end the waking
                log.exception("waking pods went wrong")

    def _wake(self, pod: PendingPod) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": CONDITION,
            "status": "True",
            "reason": "NodeChanged",
            "message": "zonewise: there is a node whose kubelet may admit this pod now",
            "lastProbeTime": now,
            "lastTransitionTime": now,
        }
        # the UID makes it a conflict where the pod is another by now
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            self._client.patch(
                PODS, pod.name, body, kind=PatchKind.STRATEGIC, namespace=pod.namespace, subresource="status"
            )
        except (NotFound, Conflict):  # it is gone, or another of its name is there
            self._cluster.remove_unschedulable(pod.uid)
            return
        except KubeError as error:
            log.warning("pod=%s/%s cannot be woken: %s", pod.namespace, pod.name, error)
            return
        self._meters.count_requeued()
        log.debug("pod=%s/%s woken", pod.namespace, pod.name)
