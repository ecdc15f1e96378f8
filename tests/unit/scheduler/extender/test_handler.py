"""The verbs over HTTP: what of a request comes back in its response."""

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
def test_victims_that_pass_through_violate_budgets_as_proposed(proposed: dict[str, Any]) -> None:
    """For a pod that no kubelet aligns, kube-scheduler gets its victims back with their violations of budgets."""
    metrics = ExtenderMetrics()
    client: Any = None
    informers: Any = SimpleNamespace(unsynced=[])
    verbs = ExtenderVerbs(DirectCluster("n", "m").cache, client, metrics, informers)
    body = json.dumps({"Pod": BURSTABLE, **proposed}).encode()
    response = ExtenderHandler(verbs, metrics, bind=False).handle(Request("POST", "/preempt", body=body))
    assert json.loads(response.body) == {"NodeNameToMetaVictims": META_VICTIMS}
