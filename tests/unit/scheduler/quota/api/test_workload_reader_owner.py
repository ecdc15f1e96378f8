"""Workloads that a single pod owns."""

from __future__ import annotations

import pytest

from zonewise_scheduler.quota.api.workload_reader import owned_by_single_pod


def test_owned_by_single_pod() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod"}
    assert owned_by_single_pod({"ownerReferences": [pod]})
    assert not owned_by_single_pod({"ownerReferences": [pod, pod]})
    assert not owned_by_single_pod({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job"}]})
    assert not owned_by_single_pod(
        {"ownerReferences": [pod], "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
    )
    with pytest.raises(ValueError, match=r"metadata\.ownerReferences: not a list"):
        owned_by_single_pod({"ownerReferences": "v1"})
