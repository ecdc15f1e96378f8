"""Pods in the form in which the controller stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from support.held_pods import held_pod, pinned
from zonewise_scheduler.controller.observed_pod import WatchedPod, decode_observed_pod

Json = dict[str, Any]

TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
AFFINITY: Json = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


def decode(pod: Json) -> WatchedPod:
    return decode_observed_pod(msgspec.Raw(msgspec.json.encode(pod)))


def outside(phase: str = "Running", **spec: object) -> Json:
    return {"metadata": {"namespace": "ns", "name": "p"}, "spec": spec, "status": {"phase": phase}}


def test_the_anti_affinity_of_any_active_pod_is_stored() -> None:
    (term,) = decode(outside(affinity=AFFINITY)).anti_affinity
    assert term.may_exclude("ns", {"app": "web"})
    assert decode(outside("Succeeded", affinity=AFFINITY)).anti_affinity == ()
    assert decode(outside()) == WatchedPod(decode(outside()).tracked, None)
    assert len(decode(held_pod("a", affinity=AFFINITY)).anti_affinity) == 1


def test_the_spec_is_stored_while_a_scheduler_may_bind_the_pod() -> None:
    held = held_pod("a")
    bindable = pinned(held, "node-1")
    bound = pinned(held_pod("a", nodeName="node-1"), "node-1")
    deleted = {**bindable, "metadata": {**held["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    specs = [decode(pod).managed for pod in (held, bindable, bound, deleted)]
    assert [None if pod is None else pod.spec for pod in specs] == [None, bindable["spec"], None, None]
