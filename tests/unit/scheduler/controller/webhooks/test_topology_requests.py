"""Topology requests that Kueue's webhooks reject, since no placement could satisfy them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.admission_reviews import job, problems_of

Json = dict[str, Any]

TOPOLOGY = "kueue.x-k8s.io/podset"
REQUIRED, PREFERRED = f"{TOPOLOGY}-required-topology", f"{TOPOLOGY}-preferred-topology"
GROUP, SIZE, SLICE = f"{TOPOLOGY}-group-name", f"{TOPOLOGY}-slice-size", f"{TOPOLOGY}-slice-required-topology"
LAYERS = f"{SLICE}-constraints"


def layers(*sizes: int, topology: str = "") -> str:
    return json.dumps([{"topology": topology or f"level-{i}", "size": size} for i, size in enumerate(sizes)])


def job_set(*replicated: tuple[int, Json]) -> Json:
    """Return a JobSet; each replicated job has a number of pods and the annotations of its template."""
    jobs = [
        {"name": f"r{i}", "replicas": 1, "template": {"spec": job("q", template=annotations, parallelism=pods)["spec"]}}
        for i, (pods, annotations) in enumerate(replicated)
    ]
    spec = {"replicatedJobs": jobs}
    return {**job("q"), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec}


def leader_worker_set(size: int, leader: Json, worker: Json) -> Json:
    pods = {"containers": [{"name": "main", "image": "none"}]}
    templates = {f"{name}Template": {"metadata": {"annotations": annotations}, "spec": pods}
                 for name, annotations in (("leader", leader), ("worker", worker))}  # fmt: skip
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": size, **templates}}
    return {**job("q"), "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}


NONE: Json = {}
PAIR = {GROUP: "g", REQUIRED: "rack"}


@pytest.mark.parametrize(
    "valid",
    [
        job("q", template={SLICE: "rack", SIZE: "4"}),
        job("q", template={LAYERS: layers(4, 2, 1)}),
        job("q", template=PAIR),
        job_set((1, PAIR), (8, PAIR)),
        job_set((1, PAIR), (8, PAIR), (3, {})),
        leader_worker_set(8, PAIR, PAIR),
        leader_worker_set(8, {}, {SLICE: "rack", SIZE: "7"}),
    ],
)
def test_valid_requests(valid: Json) -> None:
    assert problems_of(valid) == ""


@pytest.mark.parametrize(
    ("words", "invalid"),
    [
        ("pod set main: metadata.annotations[kueue.x-k8s.io/podset-slice-size]: 5 must be at most 4",
         job("q", template={SLICE: "rack", SIZE: "5"})),
        ("5 must be at most 4, the number of its pods", job("q", template={LAYERS: layers(5)})),
        ("pod set r1: ", job_set((9, {}), (8, {SLICE: "rack", SIZE: "9"}))),
        ("pod set worker: ", leader_worker_set(8, {}, {SLICE: "rack", SIZE: "8"})),
        ("each of which divides", job("q", template={LAYERS: layers(4, 3)})),
        ("a different level in each entry", job("q", template={LAYERS: layers(4, 2, topology="rack")})),
        (f"needs {REQUIRED} or {PREFERRED}", job("q", template={GROUP: "g"})),
        ("'7' must not be a number", job("q", template={**PAIR, GROUP: "7"})),
        (f"excludes {SLICE} and {SIZE}", job("q", template={**PAIR, SLICE: "rack", SIZE: "2"})),
        ("two pod sets, not of 1", job_set((1, PAIR), (8, {}))),
        ("two pod sets, not of 3", job_set((1, PAIR), (8, PAIR), (1, PAIR))),
        ("one pod set has one pod", job_set((2, PAIR), (8, PAIR))),
        ("must have the same", job_set((1, PAIR), (8, {GROUP: "g", PREFERRED: "rack"}))),
        ("19 pod sets, and at most 18", job_set(*[(1, NONE)] * 19)),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_satisfied(words: str, invalid: Json) -> None:
    assert words in problems_of(invalid)


def test_an_update_may_keep_a_stored_request() -> None:
    """A finalizer can be removed from a job that was stored before the webhook ran."""
    stored = job("q", template={SLICE: "rack", SIZE: "5"}, suspend=True)
    changed = {**stored, "metadata": {**stored["metadata"], "finalizers": ["a"]}}
    assert problems_of(changed, stored) == ""


def test_a_job_that_cannot_be_read_is_rejected_at_once() -> None:
    spec = {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": job()["spec"]["template"]}}
    cluster = {**job("q"), "apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}
    assert "spec.enableInTreeAutoscaling: a queued job has a fixed number of pods" in problems_of(cluster)
