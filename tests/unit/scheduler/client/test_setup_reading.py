"""Which pods `zonewise check` counts as left alone by their scheduler, and which agents as ready."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.client.setup_reading import ready_agents, unhandled_pods

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
