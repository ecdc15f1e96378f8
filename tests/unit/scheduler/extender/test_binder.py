"""Bindings by the extender: the effect of each response of the API server on the pod."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from support.ledger_kubelets import pod_shape
from support.waiting import eventually
from zonewise_common.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.extender import binder as binder_module
from zonewise_scheduler.extender.binder import Binder, bound_node
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.placing.placer import PodPlacement
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.cache import ExtenderCache

Json = dict[str, Any]


class FakeServer:
    """A server that fails bindings with the given errors, then accepts them; it stores one pod."""

    def __init__(self, *errors: KubeError, pod: Json | KubeError | None = None) -> None:
        self.errors = list(errors)
        self.pod = pod
        self.bodies: list[Json] = []
        self.results: list[tuple[str, str]] = []
        self.silent = threading.Event()
        self.silent.set()

    def create(self, _resource: object, body: Json, **_: Any) -> Json:
        self.bodies.append(body)
        if body["metadata"]["name"] == "slow":
            assert self.silent.wait(60)
        if self.errors:
            raise self.errors.pop(0)
        return {}

    def get(self, *_: Any, **__: Any) -> Json:
        if isinstance(self.pod, KubeError):
            raise self.pod
        assert self.pod is not None
        return self.pod

    def end_binding(self, placement: PodPlacement, result: str) -> None:
        self.results.append((placement.pod.name, result))


def placement(name: str = "p") -> PodPlacement:
    return PodPlacement(PendingPod(f"uid-{name}", "lab", name, pod_shape((1, 0))), "n", Verdict(admitted=True))


def pod(uid: str = "uid-p", node: str = "", **metadata: str) -> Json:
    return {"metadata": {"name": "p", "uid": uid, **metadata}, "spec": {"nodeName": node} if node else {}}


def error(kind: type[ApiError], status: int) -> ApiError:
    return kind(status, "Reason", "message")


def binder(server: FakeServer, assume_timeout: float = 120.0) -> Binder:
    return Binder(
        cast("Client", server), cast("ExtenderCache", server), ExtenderMetrics(), assume_timeout=assume_timeout
    )


@pytest.mark.parametrize(
    ("server", "result"),
    [
        (FakeServer(), "bound"),
        (FakeServer(error(NotFound, 404)), "gone"),
        (FakeServer(error(Conflict, 409), pod=pod(node="n")), "bound"),
        (FakeServer(error(Conflict, 409), pod=pod(node="other")), "failed"),
        (FakeServer(error(Conflict, 409), pod=pod()), "failed"),
        (FakeServer(error(Conflict, 409), pod=pod(uid="other", node="n")), "gone"),
        (FakeServer(error(Conflict, 409), pod=pod(deletionTimestamp="2026-01-01T00:00:00Z")), "gone"),
        (FakeServer(error(Conflict, 409), pod=error(NotFound, 404)), "gone"),
        (FakeServer(error(Conflict, 409), pod=error(Forbidden, 403)), "failed"),
        (FakeServer(error(Forbidden, 403)), "failed"),
        (FakeServer(TransportError("reset"), error(ServerError, 500), error(TooManyRequests, 429)), "bound"),
        (FakeServer(TransportError("reset"), error(Conflict, 409), pod=pod(node="n")), "bound"),
    ],
)
def test_responses(server: FakeServer, result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a response without a definite meaning, the binder retries; until then the pod remains assumed."""
    monkeypatch.setattr(binder_module, "RETRY_PERIOD", 0.01)
    with binder(server) as running:
        running.submit([placement()])
        eventually(lambda: server.results == [("p", result)])
    assert all(body["metadata"]["uid"] == "uid-p" for body in server.bodies)
    assert server.bodies[0]["target"]["name"] == "n"


@pytest.mark.parametrize(("give_up", "assume_timeout"), [(0.5, 120.0), (90.0, 0.6)])
def test_an_unavailable_server(give_up: float, assume_timeout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, but while it is still assumed, the pod is left to kube-scheduler."""
    monkeypatch.setattr(binder_module, "RETRY_PERIOD", 0.01)
    monkeypatch.setattr(binder_module, "GIVE_UP", give_up)
    server = FakeServer(*[TransportError("refused")] * 1000)
    with binder(server, assume_timeout) as running:
        running.submit([placement()])
        eventually(lambda: server.results == [("p", "failed")])
    assert 1 < len(server.bodies) < 1000


def test_a_slow_request_delays_no_other() -> None:
    """While one request has no response, other pods are bound."""
    server = FakeServer()
    server.silent.clear()
    names = [f"p{number}" for number in range(20)]
    with binder(server) as running:
        running.submit([placement("slow"), *map(placement, names)])
        eventually(lambda: {name for name, _ in server.results} == set(names))
        server.silent.set()
        eventually(lambda: ("slow", "bound") in server.results)


def test_the_node_of_a_pod() -> None:
    client = cast("Client", FakeServer(pod=pod(node="n", deletionTimestamp="2026-01-01T00:00:00Z")))
    assert bound_node(client, "lab", "p", "uid-p") == "n"
