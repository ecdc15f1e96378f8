"""The extender's verbs over HTTP: responses preserve the fields of their requests."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from support.extender_caches import DirectCluster
from zonewise_common.service.handlers import Request
from zonewise_scheduler.extender.handler import MAX_POD_BYTES, MAX_VALUES, MAX_VICTIM_VALUES, ExtenderHandler
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.types import MAX_NAMES
from zonewise_scheduler.extender.verbs import ExtenderVerbs

if TYPE_CHECKING:
    from zonewise_common.service.handlers import Response

BURSTABLE = {
    "metadata": {"uid": "uid-web", "name": "web", "namespace": "lab"},
    "spec": {"priority": 9, "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
}
META_VICTIMS = {
    "n": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1},
    "m": {"Pods": [{"UID": "b"}], "NumPDBViolations": 0},
}
WHOLE_VICTIMS = {
    "n": {"Pods": [{"metadata": {"uid": "a"}}], "NumPDBViolations": 1},
    "m": {"Pods": [{"metadata": {"uid": "b"}}], "NumPDBViolations": 0},
}


@pytest.mark.parametrize(
    "proposed", [{"NodeNameToMetaVictims": META_VICTIMS}, {"NodeNameToVictims": WHOLE_VICTIMS}], ids=["meta", "whole"]
)
def test_passed_through_victims_keep_their_budget_violations(proposed: dict[str, Any]) -> None:
    """If no kubelet aligns the pod, kube-scheduler gets its own victims back, with their budget violations."""
    response = call("/preempt", {"Pod": BURSTABLE, **proposed})
    assert json.loads(response.body) == {"NodeNameToMetaVictims": META_VICTIMS}


@pytest.mark.parametrize("path", ["/filter", "/prioritize", "/preempt"])
def test_a_pod_that_no_api_server_would_accept_is_not_decoded(path: str) -> None:
    """A pod above the limit is rejected with a message. Only the pod counts, not the names of nodes."""
    annotations = {"a": "x" * MAX_POD_BYTES}
    response = call(path, {"Pod": {**BURSTABLE, "metadata": {"annotations": annotations}}})
    assert (response.status, response.body) == (400, b"Pod: larger than 4194304 bytes\n")
    response = call(path, {"Pod": BURSTABLE, "NodeNames": ["n", "x" * MAX_POD_BYTES]})
    assert response.status == 200


def nodes(count: int) -> str:
    return f'"Nodes": {{"items": [{",".join(["{}"] * count)}]}}'


@pytest.mark.parametrize(
    ("path", "arguments", "reason"),
    [
        ("/filter", nodes(MAX_VALUES + 1), f"more than {MAX_VALUES} values"),
        ("/preempt", nodes(MAX_VICTIM_VALUES + 1), f"more than {MAX_VICTIM_VALUES} values"),
        ("/filter", f'"NodeNames": [{",".join(["0"] * (MAX_NAMES + 2))}]', f"NodeNames: more than {MAX_NAMES} names"),
    ],
)
def test_a_body_of_many_small_values_is_not_decoded(path: str, arguments: str, reason: str) -> None:
    """Each decoded value takes much more memory than its text. The message states the limit."""
    response = send(path, f'{{"Pod": {json.dumps(BURSTABLE)}, {arguments}}}'.encode())
    assert (response.status, response.body.decode()) == (400, f"{reason}\n")


def call(path: str, arguments: dict[str, Any]) -> Response:
    """Return the response to arguments."""
    return send(path, json.dumps(arguments).encode())


def send(path: str, body: bytes) -> Response:
    """Return the response of a new extender with two nodes to a body."""
    metrics = ExtenderMetrics()
    client: Any = None
    informers: Any = SimpleNamespace(unsynced=[])
    verbs = ExtenderVerbs(DirectCluster("n", "m").cache, client, metrics, informers)
    return ExtenderHandler(verbs, metrics, bind=False).handle(Request("POST", path, body=body))
