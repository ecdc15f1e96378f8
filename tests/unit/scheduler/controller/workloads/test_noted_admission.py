"""The annotation of a start is read back as written; text of users gives nothing, or an admission without amounts."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.workloads.noted_admission import (
    NotedAdmission,
    note_admission,
    pod_set_assignment,
    read_noted_admission,
)

NAMES = st.text(min_size=1)


@given(NAMES, st.dictionaries(NAMES, NAMES, min_size=1), st.integers(0, 1 << 31))
def test_a_noted_admission_is_read_back(queue: str, flavors: dict[str, str], pods: int) -> None:
    text = note_admission(queue, {"name": "main", "flavors": flavors}, pods)
    assert read_noted_admission(text) == NotedAdmission(queue, flavors, pods)


KEYS = st.sampled_from(["clusterQueue", "flavors", "count"]) | NAMES
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
)


@given(st.text() | VALUES.map(json.dumps))
def test_any_text_can_be_read(text: str) -> None:
    noted = read_noted_admission(text)
    assert noted is None or (noted.cluster_queue and noted.flavors and noted.pods >= 0)


def test_usage_includes_only_resources_with_a_flavor() -> None:
    flavors = {"cpu": "f", "memory": "g", "pods": "f", "example.com/gpu": "g"}
    assert pod_set_assignment("main", flavors, 3, {"cpu": 1500, "memory": 1 << 30, "ephemeral-storage": 5}) == {
        "name": "main",
        "flavors": flavors,
        "count": 3,
        "resourceUsage": {"cpu": "1500m", "memory": "1Gi", "pods": "3", "example.com/gpu": "0"},
    }
