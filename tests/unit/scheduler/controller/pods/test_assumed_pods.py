"""Pods that count on their nodes before they are observed there."""

from __future__ import annotations

from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.controller.pods.assumed_pods import AssumedPods


def test_a_pod_counts_until_it_is_forgotten() -> None:
    pods = AssumedPods()
    pods.assume("a", "node-1", Resource(1000, 5, 1, 0))
    pods.assume("b", "node-1", Resource(500, 0, 1, 0, (("gpu", 1),)))
    assert "a" in pods
    assert pods.requested("node-1") == Resource(1500, 5, 2, 0, (("gpu", 1),))
    assert pods.forget("a") == "node-1"
    assert pods.forget("a") == ""
    assert pods.requested("node-1") == Resource(500, 0, 1, 0, (("gpu", 1),))
    assert pods.forget("b") == "node-1"
    assert pods.requested("node-1") == Resource(0, 0, 0, 0)
