"""Requeueing of pods, also while the API server is unavailable."""

from __future__ import annotations

from typing import Any, cast

import pytest

from support.ledger_kubelets import pod_shape
from support.waiting import eventually
from zonewise_common.kube.errors import Conflict, Forbidden, KubeError, NotFound, ServerError, TransportError
from zonewise_scheduler.extender import requeue
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.requeue import CONDITION, Requeuer
from zonewise_scheduler.nodes.assumed.types import PendingPod

PODS = [PendingPod(f"uid-{name}", "lab", name, pod_shape((1, 0))) for name in "abc"]


class FakeServer:
    """A client whose requests first fail with the given errors, and a cache that returns each due pod once."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = [*errors]
        self.due = [*PODS]
        self.dropped: list[str] = []
        self.patched: list[str] = []
        self.tried: list[str] = []

    def pods_to_requeue(self) -> list[PendingPod]:
        due, self.due = self.due, []
        return due

    def drop_pod(self, uid: str) -> None:
        self.dropped.append(uid)

    def patch(self, _resource: object, name: str, body: dict[str, Any], **_: object) -> None:
        self.tried.append(name)
        if self.errors:
            raise self.errors.pop(0)
        assert body["metadata"] == {"uid": f"uid-{name}"}
        assert [condition["type"] for condition in body["status"]["conditions"]] == [CONDITION]
        self.patched.append(name)

    def requeuer(self) -> Requeuer:
        return Requeuer(cast("Any", self), cast("Any", self), ExtenderMetrics())


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requeue, "PERIOD", 0.001)
    monkeypatch.setattr(requeue, "RETRY_PERIOD", 0.001)


def test_due_pods_remain_due_while_the_api_server_is_unavailable() -> None:
    """No pod is requeued twice or lost, although the cache would return it again only after its backoff."""
    server = FakeServer(TransportError("refused"), TransportError("refused"), ServerError(503, "", "etcd"))
    with server.requeuer():
        eventually(lambda: server.patched == ["a", "b", "c"])
    assert server.tried == ["a", "b", "c", "a", "b", "c"]


def test_a_pod_whose_requests_fail_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, the admission webhook of one namespace does not respond. Pods that become due later count too."""
    server = FakeServer()
    patch = server.patch

    def fail_for_a(resource: object, name: str, body: dict[str, Any], **more: object) -> None:
        if name == "a":
            server.tried.append(name)
            raise ServerError(500, "InternalError", "failed calling webhook")
        patch(resource, name, body, **more)

    monkeypatch.setattr(server, "patch", fail_for_a)
    with server.requeuer():
        eventually(lambda: server.patched == ["b", "c"])
        server.due = [PODS[1]]
        eventually(lambda: server.patched == ["b", "c", "b"])
        eventually(lambda: server.tried.count("a") > 3)


@pytest.mark.parametrize(
    ("error", "dropped"),
    [
        (NotFound(404, "NotFound", "gone"), ["uid-a"]),
        (Conflict(409, "Conflict", "another UID"), ["uid-a"]),
        (Forbidden(403, "Forbidden", "no right"), []),
    ],
)
def test_an_error_for_one_pod_does_not_delay_the_others(error: KubeError, dropped: list[str]) -> None:
    server = FakeServer(error)
    with server.requeuer():
        eventually(lambda: server.patched == ["b", "c"])
    assert server.dropped == dropped
