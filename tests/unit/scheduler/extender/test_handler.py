"""The extender's verbs over HTTP: responses preserve the fields of their requests."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from support.extender_caches import DirectCluster
from zonewise_common.service.handlers import Request
from zonewise_scheduler.extender.handler import ExtenderHandler
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.verbs import ExtenderVerbs

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
    metrics = ExtenderMetrics()
    client: Any = None
    informers: Any = SimpleNamespace(unsynced=[])
    verbs = ExtenderVerbs(DirectCluster("n", "m").cache, client, metrics, informers)
    body = json.dumps({"Pod": BURSTABLE, **proposed}).encode()
    response = ExtenderHandler(verbs, metrics, bind=False).handle(Request("POST", "/preempt", body=body))
    assert json.loads(response.body) == {"NodeNameToMetaVictims": META_VICTIMS}
