"""Which pods `zonewise check` counts as left alone by their scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.client.setup_reading import unhandled_pods

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
