"""Deployments and StatefulSets of a queue: their pods get the queue, which cannot change while they are ready."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission_reviews import DEFAULT_PATH, QUEUE, defaulted, problems_of, response_of, review, rules

Json = dict[str, Any]
KINDS = pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
CLASS = "kueue.x-k8s.io/priority-class"


def replicated(labels: Json, kind: str = "Deployment", ready: int = 0) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "web", "namespace": "team-a", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": template},
            "status": {"readyReplicas": ready}}  # fmt: skip


@KINDS
def test_the_pods_get_the_queue_and_the_priority_class(kind: str) -> None:
    made = defaulted(replicated({QUEUE: "q", CLASS: "high", "team": "a"}, kind), rules())
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web", QUEUE: "q", CLASS: "high"}


def test_the_pods_get_the_queue_again_when_the_object_is_replaced() -> None:
    old = defaulted(replicated({QUEUE: "q"}), rules())
    assert "patch" in response_of(DEFAULT_PATH, review(replicated({QUEUE: "q"}), old), rules())
    assert "patch" not in response_of(DEFAULT_PATH, review(old, old), rules())


@KINDS
def test_an_object_without_a_queue_is_not_changed_even_if_there_is_a_default_queue(kind: str) -> None:
    plain = replicated({}, kind)
    assert defaulted(plain, rules(default_queue=True)) == plain


def test_an_object_that_belongs_to_a_job_is_not_changed() -> None:
    wrapped = replicated({QUEUE: "q"})
    owner = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "a", "controller": True}
    wrapped["metadata"]["ownerReferences"] = [owner]
    assert defaulted(wrapped, rules()) == wrapped


@pytest.mark.parametrize(
    ("words", "new", "old"),
    [
        ("'Q!'", replicated({QUEUE: "Q!"}), None),
        ("cannot replace 'q'", replicated({QUEUE: "r"}), replicated({QUEUE: "q"}, ready=1)),
        ("or be removed", replicated({}), replicated({QUEUE: "q"})),
        ("", replicated({QUEUE: "r"}), replicated({QUEUE: "q"})),
        ("", replicated({QUEUE: "q"}), replicated({}, ready=1)),
    ],
)
def test_a_queue_is_valid_and_constant_while_replicas_are_ready(words: str, new: Json, old: Json | None) -> None:
    problems = problems_of(new, old)
    assert words in problems
    assert bool(words) == bool(problems)
