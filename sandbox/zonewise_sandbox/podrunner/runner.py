"""The runner: watches nodes and pods, and writes bindings and statuses from several threads.

Only one worker handles a pod at a time. The next step depends on the observed pod and the time:

| observed | step |
|---|---|
| schedulable, a node has capacity | bind it |
| bound and Pending, its kubelet rejects it | Failed, with the kubelet's reason |
| bound and Pending, for the start delay | Running, Ready |
| Running, for its run time, once its gang is whole | Succeeded or Failed |
| deleted and not ended, for its stop time | Failed |
| deleted and ended | remove it, with a grace period of 0 |
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, KubeError, NotFound
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODES, PODS
from zonewise_sandbox.podrunner.binder import Binder
from zonewise_sandbox.podrunner.gangs import RunningGangs
from zonewise_sandbox.podrunner.statuses import ended_status, rejected_status, running_status
from zonewise_sandbox.podrunner.types import RUN_SECONDS, STOP_SECONDS, RunnerNode, RunnerPod
from zonewise_sandbox.workqueue import Controller, Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.config import Config

log = logging.getLogger(__name__)

_RETRY = 0.5
"""Seconds until a failed step is repeated."""
_NODE = msgspec.json.Decoder(RunnerNode)
_POD = msgspec.json.Decoder(RunnerPod)


class RunnerSettings(NamedTuple):
    """The behaviour of a runner."""

    start_delay: float = 0.0
    """Seconds from the binding to Running."""
    schedulers: frozenset[str] = frozenset({"default-scheduler"})
    """The schedulers that it replaces; if empty, it only runs pods that others bind."""
    workers: int = 8


class PodAdmission(Protocol):
    """The admission of all nodes' kubelets. Several threads call it."""

    def admit(self, pod: RunnerPod, /) -> str:
        """Admit a pod to its node, unless it is admitted already; return the reason for a rejection, or ""."""
        ...

    def remove(self, pod: RunnerPod, /) -> None:
        """Free the resources of a pod that has ended or no longer exists; do nothing if it holds none."""
        ...


class _EveryPod:
    """Kubelets that admit every pod."""

    def admit(self, _pod: RunnerPod) -> str:
        return ""

    def remove(self, _pod: RunnerPod) -> None:
        return


class PodRunner(Controller):
    """Binds and runs the pods of a cluster until it is closed."""

    def __init__(
        self,
        config: Config,
        settings: RunnerSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        speed: float = 1.0,
        kubelets: PodAdmission | None = None,
    ) -> None:
        """Create a runner from the API server and a clock in seconds since 1970. Call wake() after a jump of the clock.

        `speed` is the number of clock seconds per real second. Without `kubelets`, every pod is admitted.
        """
        self._settings = settings or RunnerSettings()
        super().__init__(config, "pod-runner", clock, self._settings.workers, speed)
        self._kubelets: PodAdmission = kubelets or _EveryPod()
        self._lock = threading.Lock()  # guards the binder, the gangs, the choices and the times
        self._binder = Binder()
        self._gangs = RunningGangs()
        self._chosen: dict[Key, tuple[str, str]] = {}
        """UID and node by pod, until the binding is observed."""
        self._since: dict[Key, tuple[str, float]] = {}
        """By pod: its UID and state, and when it was first observed in this state."""
        self._nodes: Reflector[RunnerNode] = Reflector(self._client, NODES, _NODE.decode, self._node_changed)
        self._pods: Reflector[RunnerPod] = Reflector(self._client, PODS, _POD.decode, self._pod_changed)

    @property
    def waiting(self) -> int:
        """Return the number of pods that wait for capacity on a node."""
        with self._lock:
            return self._binder.waiting

    @property
    def _caches(self) -> tuple[Reflector[Any], ...]:
        return self._nodes, self._pods

    # --- events

    def _node_changed(self, _old: RunnerNode | None, new: RunnerNode | None) -> None:
        with self._lock:
            if new is not None:
                self._choose(self._binder.set_node(new))
            elif _old is not None:
                self._binder.remove_node(_old.metadata.name)

    def _pod_changed(self, old: RunnerPod | None, new: RunnerPod | None) -> None:
        pod = new or old
        if pod is None:
            return
        if new is None or new.is_ended:
            self._kubelets.remove(pod)
        with self._lock:
            if new is None or new.is_ended:
                self._choose(self._binder.release(pod.key))
                self._chosen.pop(pod.key, None)
            elif new.node:
                self._chosen.pop(pod.key, None)
                self._binder.hold(new, new.node)
            elif self._is_to_be_bound(new):
                self._place(new)
            else:
                self._choose(self._binder.release(pod.key))
            if new is None:
                self._since.pop(pod.key, None)
            else:
                self._note_state(new)
            for key in self._gangs.observe(pod, self._clock(), exists=new is not None):
                self._queue.add(key)
        if new is not None:
            self._queue.add(pod.key)

    def _is_to_be_bound(self, pod: RunnerPod) -> bool:
        return pod.is_schedulable and pod.spec.get("schedulerName") in self._settings.schedulers

    def _place(self, pod: RunnerPod) -> None:
        if self._chosen.get(pod.key, ("", ""))[0] != pod.metadata.uid:
            node = self._binder.place(pod)
            self._choose([(pod, node)] if node else [])

    def _choose(self, placed: list[tuple[RunnerPod, str]]) -> None:
        for pod, node in placed:
            self._chosen[pod.key] = pod.metadata.uid, node
            self._queue.add(pod.key)

    def _note_state(self, pod: RunnerPod) -> None:
        deleted = pod.metadata.deletion_timestamp is not None
        state = f"{pod.metadata.uid} {pod.node} {pod.status.phase} {deleted}"
        if self._since.get(pod.key, ("", 0.0))[0] != state:
            self._since[pod.key] = state, self._clock()

    # --- steps

    def _handle(self, key: Key) -> None:
        try:
            self._step(key)
        except (NotFound, Conflict):
            pass  # the pod has changed: its event adds it again
        except KubeError as error:
            log.warning("pod %s/%s: %s", *key, error)
            self._queue.add_at(key, self._clock() + _RETRY * self._speed)

    def _step(self, key: Key) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is None:
            return
        if not pod.node:
            self._bind(pod)
        elif pod.metadata.deletion_timestamp is not None:
            self._stop(pod)
        elif pod.status.phase == "Pending":
            rejection = self._kubelets.admit(pod)
            if rejection:
                self._write_at(pod, 0.0, lambda _: rejected_status(rejection))
            else:
                self._write_at(pod, self._settings.start_delay, lambda now: running_status(pod, now))
        elif pod.status.phase == "Running":
            seconds = pod.seconds(RUN_SECONDS)
            with self._lock:
                waits = self._gangs.waits(pod)
            if seconds is not None and not waits:
                self._write_at(pod, seconds, lambda now: ended_status(pod, now, killed=False))

    def _bind(self, pod: RunnerPod) -> None:
        with self._lock:
            uid, node = self._chosen.get(pod.key, ("", ""))
        if uid != pod.metadata.uid or not pod.is_schedulable:
            return
        namespace, name = pod.key
        body = {
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"kind": "Node", "name": node},
        }
        self._client.create(PODS, body, subresource="binding")

    def _stop(self, pod: RunnerPod) -> None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        if pod.is_ended:
            namespace, name = pod.key
            if grace:
                self._client.delete(PODS, name, namespace=namespace, uid=pod.metadata.uid, grace_seconds=0)
            return
        seconds = min(pod.seconds(STOP_SECONDS) or 0.0, float(grace))
        self._write_at(pod, seconds, lambda now: ended_status(pod, now, killed=True))

    def _write_at(self, pod: RunnerPod, seconds: float, status: Callable[[float], dict[str, object]]) -> None:
        """Write a status `seconds` after the pod entered its state and its gang was complete; until then, wait."""
        with self._lock:
            since = self._gangs.begin(pod, self._since.get(pod.key, ("", self._clock()))[1])
        now = self._clock()
        if now < since + seconds:
            self._queue.add_at(pod.key, since + seconds)
            return
        namespace, name = pod.key
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status(now)}
        with contextlib.suppress(NotFound):
            self._client.patch(PODS, name, patch, kind=PatchKind.STRATEGIC, namespace=namespace, subresource="status")
