"""Jobs of plain pods: which of the annotations of a group count."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.kube.resources import LEADER_WORKER_SETS, POD_GROUPS
from zonewise_scheduler.controller.pods.group_owner import GroupOwner
from zonewise_scheduler.controller.pods.pod_group import read_plain_pods
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

POD: Any = {
    "metadata": {"name": "p", "uid": "u", "annotations": {SUBMITTED_BY_ANNOTATION: "ann"}},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}
CLAIM = {SUBMITTED_BY_ANNOTATION: "ben", "note": "mine"}


@pytest.mark.parametrize(
    ("group", "user"),
    [
        (None, "ann"),
        (GroupOwner(POD_GROUPS, "g", "u", 1, CLAIM), "ann"),
        (GroupOwner(LEADER_WORKER_SETS, "g", "u", 1, CLAIM, queue="q"), "ben"),
    ],
    ids=["pod", "PodGroup", "LeaderWorkerSet"],
)
def test_only_an_object_that_the_webhooks_check_names_the_user_of_a_group(group: GroupOwner | None, user: str) -> None:
    """No webhook is called for PodGroups, so the annotation of a PodGroup is a claim of its user."""
    annotations = read_plain_pods([POD], group).annotations
    assert annotations[SUBMITTED_BY_ANNOTATION] == user
    assert group is None or annotations["note"] == "mine"
