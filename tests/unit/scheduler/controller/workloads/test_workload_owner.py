"""The job that owns a Workload."""

from __future__ import annotations

from zonewise_scheduler.controller.workloads.workload_owner import owner_of


def test_the_controlling_owner_is_the_job() -> None:
    owners = [{"kind": "JobSet", "name": "set"}, {"kind": "Job", "name": "job", "controller": True}]
    assert owner_of({"metadata": {"ownerReferences": owners}}) == ("Job", "job")
    assert owner_of({"metadata": {"ownerReferences": owners[:1]}}) == ("JobSet", "set")
    assert owner_of({"metadata": {}}) == owner_of(None) == ("", "")
