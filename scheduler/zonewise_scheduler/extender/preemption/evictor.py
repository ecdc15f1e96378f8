"""Sends the requests of a preemption: nominates the preemptor, marks and deletes the victims, writes events.

kube-scheduler sends the same requests (pkg/scheduler/framework/preemption/executor.go, PreemptPod).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, KubeError, NotFound
from zonewise_common.kube.events import Occurrences, event, timestamp, utc_now
from zonewise_common.kube.resources import EVENTS, PODS

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.nodes.preemption.types import Preemptor, RunningPod

log = logging.getLogger(__name__)

_COMPONENT = "zonewise-scheduler"


class Evictor:
    """See the module."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def nominate(self, preemptor: Preemptor, node: str) -> bool:
        """Set status.nominatedNodeName; return False if the pod is gone. Raises KubeError."""
        body = {"metadata": {"uid": preemptor.uid}, "status": {"nominatedNodeName": node}}
        try:
            self._client.patch(
                PODS, preemptor.name, body, kind=PatchKind.STRATEGIC, namespace=preemptor.namespace,
                subresource="status",
            )  # fmt: skip
        except (NotFound, Conflict):
            return False
        return True

    def evict(self, victim: RunningPod, preemptor: Preemptor, node: str) -> bool:
        """Mark and delete a victim; return whether it was deleted now or was gone already. Logs errors."""
        try:
            self._mark(victim)
            self._client.delete(PODS, victim.name, namespace=victim.namespace, uid=victim.uid)
        except KubeError as error:
            if isinstance(error, NotFound) or (isinstance(error, Conflict) and self._is_gone(victim)):
                return True
            log.warning("pod=%s/%s node=%s not preempted: %s", victim.namespace, victim.name, node, error)
            return False
        log.info("pod=%s/%s priority=%d node=%s preempted by=%s/%s priority=%d", victim.namespace, victim.name,
                 victim.priority, node, preemptor.namespace, preemptor.name, preemptor.priority)  # fmt: skip
        message = f"Preempted by pod {preemptor.uid} on node {node}"
        self._write_event(victim.namespace, victim.name, victim.uid, "Preempted", message)
        return True

    def write_preemptor_event(self, preemptor: Preemptor, node: str, count: int) -> None:
        """Write an event of the preemptor; `node`: the names of all nodes with victims."""
        message = f"zonewise: {count} pod(s) of lower priority on node {node} are evicted to free a zone for this pod"
        self._write_event(preemptor.namespace, preemptor.name, preemptor.uid, "Preempting", message)

    def _mark(self, victim: RunningPod) -> None:
        now = timestamp(utc_now())
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "zonewise: preempting to accommodate a higher priority pod",
            "lastTransitionTime": now,
        }
        body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        self._client.patch(
            PODS, victim.name, body, kind=PatchKind.STRATEGIC, namespace=victim.namespace, subresource="status"
        )

    def _is_gone(self, victim: RunningPod) -> bool:
        """Return whether a pod is gone or was recreated under its name; False if that is unknown.

        An API server also responds with 409 if a pod keeps changing while it applies a patch.
        """
        try:
            pod = self._client.get(PODS, victim.name, namespace=victim.namespace)
        except KubeError as error:
            return isinstance(error, NotFound)
        return pod["metadata"].get("uid") != victim.uid

    def _write_event(self, namespace: str, name: str, uid: str, reason: str, message: str) -> None:
        now = utc_now()
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}
        seen = Occurrences(now, now)
        written = event(involved, uuid4().hex[:16], _COMPONENT, reason, message, event_type="Normal", seen=seen)
        try:
            self._client.create(EVENTS, written)
        except KubeError as error:  # an event is only a message
            log.debug("pod=%s/%s no event: %s", namespace, name, error)
