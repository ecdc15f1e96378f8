"""Names of workloads behind names of pods."""

from __future__ import annotations

import pytest

from zonewise.health.holders import workload_name
from zonewise.health.types import PodName


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("train-7x2bq", "train"), ("train-12-7x2bq", "train"), ("infer-6d4f8b9c7d-x2x4z", "infer"), ("db-0", "db"),
        ("a", "a"), ("train-a", "train-a"), ("0", "0"), ("resnet-50-eval", "resnet-50-eval"),
    ],
)  # fmt: skip
def test_what_controllers_append_is_left_out(pod: str, workload: str) -> None:
    assert workload_name(PodName("ns", pod)) == f"ns/{workload}"
