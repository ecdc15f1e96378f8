"""Deployments and StatefulSets of a queue: their pods get the queue, and a StatefulSet is admitted in one size."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission_reviews import DEFAULT_PATH, QUEUE, defaulted, problems_of, response_of, review, rules

Json = dict[str, Any]
KINDS = pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
CLASS = "kueue.x-k8s.io/priority-class"
BEGIN, GATES = "zonewise.dev/begin", "kueue.x-k8s.io/admission-gated-by"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"


def replicated(labels: Json, kind: str = "Deployment", ready: int = 0) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "web", "namespace": "team-a", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": template},
            "status": {"readyReplicas": ready}}  # fmt: skip


@KINDS
def test_the_pods_get_the_queue_and_the_priority_class(kind: str) -> None:
    made = defaulted(replicated({QUEUE: "q", CLASS: "high", "team": "a"}, kind), rules())
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web", QUEUE: "q", CLASS: "high"}


def test_only_the_pods_of_a_stateful_set_form_one_job() -> None:
    made = {kind: defaulted(replicated({QUEUE: "q"}, kind), rules()) for kind in ("Deployment", "StatefulSet")}
    annotations = {kind: obj["spec"]["template"]["metadata"].get("annotations") for kind, obj in made.items()}
    assert annotations == {"Deployment": None, "StatefulSet": {PARENT: "statefulset"}}


def test_the_pods_get_the_queue_again_when_the_object_is_replaced() -> None:
    old = defaulted(replicated({QUEUE: "q"}), rules())
    assert "patch" in response_of(DEFAULT_PATH, review(replicated({QUEUE: "q"}), old), rules())
    assert "patch" not in response_of(DEFAULT_PATH, review(old, old), rules())


@KINDS
def test_an_object_without_a_queue_is_not_changed_even_if_there_is_a_default_queue(kind: str) -> None:
    plain = replicated({}, kind)
    assert defaulted(plain, rules(default_queue=True)) == plain


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("workload.codeflare.dev/v1beta2", "AppWrapper"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        ("v1", "Pod"),
    ],
)
def test_an_object_that_belongs_to_a_job_is_not_changed_and_may_be_scaled(api_version: str, kind: str) -> None:
    """A LeaderWorkerSet copies its labels to the StatefulSets of its leaders, and each leader owns one of workers."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "a", "controller": True}
    small, large = scaled(1), scaled(2)
    for owned in (small, large):
        owned["metadata"]["ownerReferences"] = [owner]
    assert defaulted(small, rules()) == small
    assert not problems_of(large, small)


@pytest.mark.parametrize(
    ("words", "new", "old"),
    [
        ("'Q!'", replicated({QUEUE: "Q!"}), None),
        ("cannot replace 'q'", replicated({QUEUE: "r"}), replicated({QUEUE: "q"}, ready=1)),
        (": the label cannot be removed", replicated({}), replicated({QUEUE: "q"})),
        ("", replicated({QUEUE: "r"}), replicated({QUEUE: "q"})),
        ("'high' cannot be removed", replicated({QUEUE: "q"}), replicated({QUEUE: "q", CLASS: "high"})),
        ("", replicated({QUEUE: "q", CLASS: "low"}), replicated({QUEUE: "q", CLASS: "high"})),
        ("", replicated({}), replicated({CLASS: "high"})),
        ("", replicated({QUEUE: "q"}), replicated({}, ready=1)),
    ],
)
def test_a_queue_and_its_class_are_valid_and_constant_while_replicas_are_ready(
    words: str, new: Json, old: Json | None
) -> None:
    problems = problems_of(new, old)
    assert words in problems
    assert bool(words) == bool(problems)


def annotated(name: str, text: str) -> Json:
    obj = replicated({QUEUE: "q"}, "StatefulSet")
    obj["metadata"]["annotations"] = {name: text}
    return obj


@pytest.mark.parametrize(
    ("words", "new", "old"),
    [
        ("'tomorrow' is not an RFC 3339 time", annotated(BEGIN, "tomorrow"), None),
        ("'noon' is not an RFC 3339 time", annotated(BEGIN, "noon"), annotated(BEGIN, "tomorrow")),
        ("", annotated(BEGIN, "2026-12-24T08:00:00Z"), annotated(BEGIN, "tomorrow")),
        ("", annotated(BEGIN, "tomorrow"), annotated(BEGIN, "tomorrow")),
        ("'a' is not the name of a gate", annotated(GATES, "a"), None),
        ("cannot be added to an existing job", annotated(GATES, "a.b/c"), annotated(BEGIN, "tomorrow")),
        ("", annotated(GATES, "a.b/c"), annotated(GATES, "a.b/d,a.b/c")),
    ],
)
def test_a_changed_begin_time_or_gate_is_valid(words: str, new: Json, old: Json | None) -> None:
    problems = problems_of(new, old)
    assert words in problems
    assert bool(words) == bool(problems)


def scaled(
    replicas: int | None, cpu: str = "1", *, kind: str = "StatefulSet", queued: bool = True, pods: int = 0
) -> Json:
    obj = replicated({QUEUE: "q"} if queued else {}, kind)
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    obj["status"]["replicas"] = pods
    if replicas is not None:
        obj["spec"]["replicas"] = replicas
    return obj


@pytest.mark.parametrize(
    ("words", "new", "old"),
    [
        ("spec.replicas: 3 cannot replace 2: scale to 0 first", scaled(3), scaled(2)),
        ("spec.replicas: 1 cannot replace 2", scaled(None), scaled(2)),
        ("requests and constraints", scaled(2, "2"), scaled(2)),
        ("until the last pods have ended", scaled(2), scaled(0, pods=1)),
        ("", scaled(0), scaled(2)),
        ("", scaled(0), scaled(0, pods=1)),
        ("", scaled(3, "2"), scaled(0)),
        ("", scaled(1), scaled(None)),
        ("", scaled(3), scaled(2, queued=False)),
        ("", scaled(3, kind="Deployment"), scaled(2, kind="Deployment")),
    ],
)
def test_a_stateful_set_changes_its_size_and_requests_only_at_0_replicas(words: str, new: Json, old: Json) -> None:
    problems = problems_of(new, old)
    assert words in problems
    assert bool(words) == bool(problems)
