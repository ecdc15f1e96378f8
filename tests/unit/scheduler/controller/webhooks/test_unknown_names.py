"""Warnings about annotations of new jobs that nothing reads."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission_reviews import job, pod, response_of, review, rules
from zonewise_scheduler.controller.webhooks.handler import VALIDATE_PATH

RUN = "zonewise.dev/max-run-seconds"


def warnings_of(obj: Any, old: Any = None) -> list[str]:
    response = response_of(VALIDATE_PATH, review(obj, old), rules())
    assert response["allowed"]
    return response.get("warnings", [])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("zonewise.dev/max-run-second", "is unknown, so it has no effect: did you mean zonewise.dev/max-run-seconds?"),
        ("zonewise.dev/dependencies", "did you mean zonewise.dev/dependency?"),
        ("zonewise.dev/colour", "metadata.annotations[zonewise.dev/colour] is unknown, so it has no effect"),
    ],
)
def test_a_misspelled_annotation_causes_a_warning(name: str, advice: str) -> None:
    [warning] = warnings_of(job("q", {name: "60"}))
    assert warning.endswith(advice)


def test_an_annotation_of_the_job_in_its_pod_template_causes_a_warning() -> None:
    assert warnings_of(job("q", template={RUN: "60"})) == [
        f"spec.template.metadata.annotations[{RUN}] has no effect in a pod template: set it in metadata.annotations"
    ]


def test_no_other_annotation_causes_a_warning() -> None:
    known = {
        "zonewise.dev/submitted-by": "ann",
        RUN: "60",
        "zonewise.dev/dependency": "afterok:a",
        "zonewise.dev/simulated-run-seconds": "1",
    }
    assert warnings_of(job("q", {**known, "example.com/x": "y", "zonewise.dev/injected": "{}"})) == []
    assert warnings_of(job("q", {"zonewise.dev/x": "1"}), job("q", {"zonewise.dev/x": "1"})) == []
    assert warnings_of(pod("q")) == []


def test_the_number_of_warnings_is_limited() -> None:
    assert len(warnings_of(job("q", {f"zonewise.dev/x{number}": "" for number in range(100)}))) == 5
