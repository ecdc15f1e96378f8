"""Rejections by kubelets, as opposed to pods that failed for another reason."""

from __future__ import annotations

import pytest

from zonewise_scheduler.nodes.node.kubelet_rejection import is_kubelet_rejection


@pytest.mark.parametrize(
    ("phase", "reason", "expected"),
    [
        ("Failed", "TopologyAffinityError", True),
        ("Failed", "OutOfcpu", True),
        ("Failed", "OutOfnvidia.com/gpu", True),
        ("Failed", "Evicted", False),
        ("Failed", "", False),
        ("Pending", "TopologyAffinityError", False),
    ],
)
def test_phase_and_reason_identify_rejections(phase: str, reason: str, *, expected: bool) -> None:
    assert is_kubelet_rejection(phase, reason) == expected
