"""LeaderWorkerSets of a queue: what is added to their templates, and what must not change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.admission_reviews import QUEUE, defaulted, problems_of, rules

Json = dict[str, Any]

TEMPLATE: Json = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}


def leader_worker_set(labels: Json | None = None, *, leader: bool = True, **spec: Any) -> Json:
    template: Json = {"size": 2, "workerTemplate": copy.deepcopy(TEMPLATE)}
    if leader:
        template["leaderTemplate"] = copy.deepcopy(TEMPLATE)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "s", "namespace": "team-a", "labels": {QUEUE: "q"} if labels is None else labels},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template | spec.pop("template", {}), **spec},
    }


def metadata(obj: Json, name: str) -> Json:
    return obj["spec"]["leaderWorkerTemplate"][name]["metadata"]


def test_the_templates_have_queue_priority_and_role() -> None:
    labels = {QUEUE: "q", "kueue.x-k8s.io/priority-class": "high", "app": "x"}
    made = defaulted(leader_worker_set(labels), rules())
    del labels["app"]
    assert metadata(made, "leaderTemplate") == {
        "labels": labels,
        "annotations": {"kueue.x-k8s.io/role-hash": "leader"},
    }
    assert metadata(made, "workerTemplate") == {
        "labels": labels,
        "annotations": {"kueue.x-k8s.io/role-hash": "worker", "kueue.x-k8s.io/pod-index-offset": "1"},
    }
    assert "suspend" not in made["spec"]


def test_a_set_without_a_leader_has_one_role() -> None:
    made = defaulted(leader_worker_set(leader=False), rules())
    assert metadata(made, "workerTemplate")["annotations"] == {"kueue.x-k8s.io/role-hash": "main"}


def test_a_set_without_a_queue_gets_the_default_one_or_is_not_changed() -> None:
    plain = leader_worker_set({})
    assert defaulted(copy.deepcopy(plain), rules()) == plain
    made = defaulted(plain, rules(default_queue=True))
    assert metadata(made, "workerTemplate")["labels"] == {QUEUE: "default"}


def test_valid_sets_and_changes() -> None:
    valid = leader_worker_set()
    assert problems_of(valid) == ""
    image = copy.deepcopy(valid)
    image["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "j"
    image["spec"]["replicas"] = 3
    assert problems_of(image, valid) == ""
    assert problems_of(leader_worker_set({QUEUE: "r"}), valid) == ""


OTHER_WORKERS = leader_worker_set(template={"workerTemplate": {"spec": {}}})
READY = {**leader_worker_set(), "status": {"readyReplicas": 1}}


@pytest.mark.parametrize(
    ("words", "changed", "old"),
    [
        ("'Q!'", leader_worker_set({QUEUE: "Q!"}), None),
        ("size: 3 cannot replace 2", leader_worker_set(template={"size": 3}), leader_worker_set()),
        ("workerTemplate: its requests", OTHER_WORKERS, leader_worker_set()),
        ("leaderTemplate: its requests", leader_worker_set(leader=False), leader_worker_set()),
        ("cannot replace 'q'", leader_worker_set({QUEUE: "r"}), READY),
        (": the label cannot be removed", leader_worker_set({}), leader_worker_set()),
    ],
)
def test_invalid_sets_and_changes(words: str, changed: Json, old: Json | None) -> None:
    assert words in problems_of(changed, old)
