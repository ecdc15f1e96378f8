"""Validation of plain pods and their groups."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission_reviews import pod, problems_of

GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


@pytest.mark.parametrize(
    "valid",
    [
        pod(),
        pod(labels={GROUP: "g"}, annotations={TOTAL: "2"}),
        pod(annotations={GROUP: "g", TOTAL: "1"}),
        pod(annotations={GROUP: "g", TOTAL: "1", PREBUILT: "g"}),
    ],
)
def test_valid_pods(valid: Any) -> None:
    assert problems_of(valid) == ""


@pytest.mark.parametrize(
    ("words", "invalid"),
    [
        ("'Q!'", pod("Q!")),
        ("must be set together", pod(labels={GROUP: "g"})),
        ("must be set together", pod(annotations={TOTAL: "2"})),
        ("'none'", pod(labels={GROUP: "g"}, annotations={TOTAL: "none"})),
        ("'0'", pod(labels={GROUP: "g"}, annotations={TOTAL: "0"})),
        ("'G G'", pod(annotations={GROUP: "G G", TOTAL: "2"})),
        ("can only be true", pod(labels={"kueue.x-k8s.io/managed": "no"})),
        ("must be the name of its group", pod(annotations={GROUP: "g", TOTAL: "1", PREBUILT: "other"})),
        ("is only possible for jobs and pod groups", pod(labels={PREBUILT: "w"})),
        ("max-run-seconds", pod(annotations={"zonewise.dev/max-run-seconds": "soon"})),
        ("is not the name of a gate", pod(annotations={"kueue.x-k8s.io/admission-gated-by": "budget"})),
        ("exclude each other", pod(annotations={
            "kueue.x-k8s.io/podset-required-topology": "a", "kueue.x-k8s.io/podset-preferred-topology": "a"})),
    ],
)  # fmt: skip
def test_invalid_pods(words: str, invalid: Any) -> None:
    assert words in problems_of(invalid)


def test_updates_are_left_to_the_policy() -> None:
    """No webhook may stand between a kubelet and its pods."""
    assert problems_of(pod("Q!"), pod()) == ""
