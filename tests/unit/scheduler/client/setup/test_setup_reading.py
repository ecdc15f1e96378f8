"""Which pods `zonewise check` counts as left alone, which agents as ready, and which webhooks lack their Service."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from unittest.mock import create_autospec

import pytest

from zonewise_common.kube.client import Client
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.client.cluster.read_api import ReadApi
from zonewise_scheduler.client.cluster.session import Session
from zonewise_scheduler.client.setup.setup_reading import read_setup, ready_agents, unhandled_pods

Json = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"
NOW = 1_767_225_660.0
"""A minute later."""


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "p", "creationTimestamp": CREATED}, "spec": {"schedulerName": "other", **spec}}


def test_an_old_pod_without_a_verdict_is_unhandled() -> None:
    assert unhandled_pods([pod(), pod(), pod(schedulerName="zonewise")], NOW) == {"other": 2, "zonewise": 1}
    assert unhandled_pods([pod()], NOW - 1.0) == {}


@pytest.mark.parametrize(
    "handled",
    [
        pod(nodeName="n"),
        pod(schedulingGates=[{"name": "g"}]),
        {**pod(), "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
        {**pod(), "status": {"phase": "Failed"}},
        {**pod(), "metadata": {"name": "p", "creationTimestamp": CREATED, "deletionTimestamp": CREATED}},
    ],
)
def test_a_pod_that_needs_no_verdict_or_has_one(handled: Json) -> None:
    assert unhandled_pods([handled], NOW) == {}


def agent(node: str, ready: str = "True") -> Json:
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]
    return {**pod(nodeName=node), "status": {"conditions": conditions}}


def test_an_agent_is_ready_if_one_of_its_pods_on_the_node_is() -> None:
    """Two agents may publish different facts of a node; during an update, the old pod is still there."""
    pods = [
        agent("a"),
        agent("b", "False"),
        agent("b"),
        agent("b", "Unknown"),
        agent("c", "False"),
        pod(nodeName="d"),
        pod(),
    ]
    assert ready_agents(pods) == {"a": True, "b": True, "c": False, "d": False, "": False}


@pytest.mark.parametrize(("services", "missing"), [((), "default/controller"), (("controller",), "")])
def test_webhooks_without_their_service_are_found(services: tuple[str, ...], missing: str) -> None:
    with ApiServer() as server, closing(Client(server.client_config())) as client:
        session = Session(client, create_autospec(ReadApi), "default")
        assert read_setup(session).missing_webhook_service == ""
        hook = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [],
                "clientConfig": {"service": {"namespace": "default", "name": "controller"}}}  # fmt: skip
        configuration = {"metadata": {"name": "zonewise-controller"}, "webhooks": [hook]}
        server.create("admissionregistration.k8s.io", "mutatingwebhookconfigurations", configuration)
        for name in services:
            server.create("", "services", {"metadata": {"namespace": "default", "name": name}})
        assert read_setup(session).missing_webhook_service == missing
