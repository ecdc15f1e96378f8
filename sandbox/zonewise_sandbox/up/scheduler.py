"""Stands in for kube-scheduler: filters nodes by their totals, calls the extender, and binds each pod.

| event | action |
|---|---|
| a pod waits for a node | filter by totals, then the extender's verbs filter and prioritize; bind to the best node |
| no node passes | the condition PodScheduled is False with the reason; the pod is tried again as below |
| a pod ends, a node changes, the pod changes | the pods for which no node passed are tried again |
| RETRY_PERIOD passes | these pods are tried again, too |

Not supported: preemption, several profiles, plugins. The extender may bind a pod itself; the first binding counts.
"""

from __future__ import annotations

import http.client
import logging
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.bindings import BINDING, binding
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, KubeError, NotFound
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODES, PODS
from zonewise_sandbox.podrunner.types import RunnerNode, RunnerPod
from zonewise_sandbox.up.candidates import NodeTotals
from zonewise_sandbox.workqueue import Controller, Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.config import Config

log = logging.getLogger(__name__)

SCHEDULERS = frozenset({"default-scheduler", "zonewise"})
"""The scheduler names that pods request."""
RETRY_PERIOD = 5.0
"""Seconds until a pod is tried again for which no node passed; kube-scheduler's flush takes five minutes."""
_TIMEOUT = 10.0
"""Seconds for a call to the extender."""
_NODE = msgspec.json.Decoder(RunnerNode)

Json = dict[str, Any]


class _SchedulablePod(RunnerPod, frozen=True):
    """A pod together with its whole object, which the extender receives."""

    whole: Json = msgspec.field(default_factory=dict[str, Any])


def _decode_pod(raw: msgspec.Raw) -> _SchedulablePod:
    whole: Json = msgspec.json.decode(raw)
    whole["metadata"].pop("managedFields", None)
    pod = msgspec.convert(whole, RunnerPod)
    return _SchedulablePod(pod.metadata, pod.spec, pod.status, whole)


class Extender:
    """Calls the verbs of an extender on a loopback port. Use one instance per thread."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)

    def filter(self, pod: Json, nodes: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return the nodes that pass, and the reason for each one that fails. Raises OSError."""
        result = self._call("/filter", pod, nodes)
        if result.get("Error"):
            raise OSError(result["Error"])
        failed: dict[str, str] = {}
        for field in ("FailedNodes", "FailedAndUnresolvableNodes"):
            failed |= result.get(field) or {}
        return result.get("NodeNames") or [], failed

    def prioritize(self, pod: Json, nodes: list[str]) -> dict[str, int]:
        """Return the scores of nodes. Raises OSError."""
        return {score["Host"]: score["Score"] for score in self._call("/prioritize", pod, nodes)}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _call(self, path: str, pod: Json, nodes: list[str]) -> Any:  # noqa: ANN401 -- as the verb returns
        body = msgspec.json.encode({"Pod": pod, "NodeNames": nodes})
        try:
            self._connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise OSError(f"the extender cannot be called: {error}") from error
        if response.status != 200:
            raise OSError(f"the extender's status is {response.status}: {content[:200].decode(errors='replace')}")
        return msgspec.json.decode(content)


class PodScheduler(Controller):
    """Binds the pods of a cluster until it is closed."""

    def __init__(
        self, config: Config, extender: tuple[str, int], *, clock: Callable[[], float], speed: float = 1.0
    ) -> None:
        """Create a scheduler from the API server, the extender's address, and the cluster's clock with its speed."""
        super().__init__(config, "scheduler", clock, 1, speed)
        self._extender = Extender(*extender)
        self._lock = threading.Lock()  # guards the totals and the waiting pods
        self._totals = NodeTotals()
        self._unschedulable: dict[Key, str] = {}
        """Messages of the pods for which no node passed."""
        self._nodes: Reflector[RunnerNode] = Reflector(self._client, NODES, _NODE.decode, self._node_changed)
        self._pods: Reflector[_SchedulablePod] = Reflector(self._client, PODS, _decode_pod, self._pod_changed)

    def close(self) -> None:
        """End the workers and watches."""
        super().close()
        self._extender.close()

    @property
    def waiting(self) -> int:
        """Return the number of pods for which no node passed."""
        with self._lock:
            return len(self._unschedulable)

    @property
    def _caches(self) -> tuple[Reflector[Any], ...]:
        return self._nodes, self._pods

    # --- events

    def _node_changed(self, old: RunnerNode | None, new: RunnerNode | None) -> None:
        with self._lock:
            if new is not None:
                self._totals.set_node(new)
            elif old is not None:
                self._totals.remove_node(old.metadata.name)
        self._retry()

    def _pod_changed(self, old: _SchedulablePod | None, new: _SchedulablePod | None) -> None:
        pod = new or old
        if pod is None:
            return
        ended = new is None or new.is_ended
        with self._lock:
            released = ended and self._totals.release(pod.key)
            if ended or pod.node:
                self._unschedulable.pop(pod.key, None)
            if new is not None and new.node and not ended:
                self._totals.hold(new, new.node)
        if released:
            self._retry()
        elif new is not None and new.is_schedulable and new.spec.get("schedulerName") in SCHEDULERS:
            self._queue.add(new.key)

    def _retry(self) -> None:
        with self._lock:
            keys = list(self._unschedulable)
        for key in keys:
            self._queue.add(key)

    # --- scheduling

    def _handle(self, key: Key) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is None or not pod.is_schedulable:
            return
        try:
            node, message = self._select(pod)
            if node:
                self._bind(pod, node)
            else:
                self._reject(pod, message)
        except NotFound:
            return
        except (KubeError, OSError, FieldError) as error:
            self._reject(pod, str(error))

    def _select(self, pod: _SchedulablePod) -> tuple[str, str]:
        """Return the node for a pod, or "" and the reason. Raises OSError, FieldError."""
        with self._lock:
            candidates, count = self._totals.candidates(pod), self._totals.count
        if not candidates:
            return "", f"0/{count} nodes are available: no selected node has enough free resources."
        passing, failed = self._extender.filter(pod.whole, candidates)
        if not passing:
            return "", fit_error(count, failed)
        if len(passing) == 1:
            return passing[0], ""
        scores = self._extender.prioritize(pod.whole, passing)
        return max(passing, key=lambda name: scores.get(name, 0)), ""

    def _bind(self, pod: _SchedulablePod, node: str) -> None:
        namespace, name = pod.key
        with self._lock:
            self._totals.hold(pod, node)
            self._unschedulable.pop(pod.key, None)
        try:
            body = binding(name, pod.metadata.uid, node, {})
            self._client.create(PODS, body, namespace=namespace, subresource=BINDING)
        except (KubeError, OSError) as error:
            with self._lock:
                self._totals.release(pod.key)
            if not isinstance(error, Conflict):  # otherwise it is bound already or has changed: its event follows
                raise

    def _reject(self, pod: _SchedulablePod, message: str) -> None:
        """Write the reason why no node passed, if it is new, and try again later."""
        self._queue.add_at(pod.key, self._clock() + RETRY_PERIOD * self._speed)
        with self._lock:
            is_new = self._unschedulable.get(pod.key) != message
            self._unschedulable[pod.key] = message
        if not is_new:
            return
        now = datetime.fromtimestamp(int(self._clock()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                     "lastTransitionTime": now}  # fmt: skip
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        namespace, name = pod.key
        try:
            self._client.patch(PODS, name, patch, kind=PatchKind.STRATEGIC, namespace=namespace, subresource="status")
        except KubeError as error:
            log.debug("pod %s/%s: %s", namespace, name, error)


def fit_error(count: int, failed: Mapping[str, str]) -> str:
    """Return the message about a pod that none of `count` nodes may run, from the reason of each node that failed.

    Source: pkg/scheduler/framework/types.go, FitError.Error.
    """
    reasons = sorted(f"{nodes} {reason}" for reason, nodes in Counter(failed.values()).items())
    return f"0/{count} nodes are available: {', '.join(reasons) or 'none passed'}."
