"""The roles of an elastic job's Workloads."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.controller.workloads.slices import find_slices, first_slice_name, is_slice, replacement_of

Json = dict[str, Any]
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"


def workload(name: str, replaces: str = "", *, active: bool = True, **conditions: str) -> tuple[str, Json]:
    """Return the key and the object of a slice; `conditions`: the reasons of those that are true."""
    metadata: Json = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": f"2026-01-01T00:00:0{name}Z"}
    metadata["annotations"] = {REPLACES: f"ns/{replaces}"} if replaces else {}
    true = [{"type": kind, "status": "True", "reason": reason} for kind, reason in conditions.items()]
    return f"ns/{name}", {"metadata": metadata, "spec": {"active": active}, "status": {"conditions": true}}


QUOTA: Json = {"QuotaReserved": "", "Admitted": ""}
EVICTED: Json = {"Evicted": "Preempted"}
REPLACED: Json = {"Finished": "WorkloadSliceReplaced"}


@pytest.mark.parametrize(
    ("slices", "current", "pending", "surplus"),
    [
        ([], "", "", ""),
        ([workload("1")], "1", "", ""),
        ([workload("1", **QUOTA)], "1", "", ""),
        ([workload("1", **QUOTA), workload("2", "1")], "1", "2", ""),
        ([workload("1", **QUOTA), workload("2", "1"), workload("3", "1")], "1", "3", "2"),
        ([workload("1", **QUOTA), workload("2", "0")], "1", "", "2"),
        ([workload("1", **QUOTA), workload("2", "1", **QUOTA)], "2", "", "1"),
        ([workload("1", **QUOTA), workload("2", "1", **QUOTA), workload("3", "2")], "2", "3", "1"),
        # two forks of one slice have quota: the newer one counts
        ([workload("1", **QUOTA), workload("2", "1", **QUOTA), workload("3", "1", **QUOTA)], "3", "", "12"),
        # the job stops first
        ([workload("1", **QUOTA, **EVICTED), workload("2", "1")], "1", "2", ""),
        ([workload("1", **QUOTA, **EVICTED), workload("2", "1", **QUOTA)], "1", "", "2"),
        # nothing has quota
        ([workload("1", **EVICTED), workload("2", "1")], "2", "", "1"),
        ([workload("1", **EVICTED), workload("2", "1", **EVICTED)], "2", "", "1"),
        ([workload("1", active=False, **EVICTED), workload("2", "1")], "1", "", "2"),
        ([workload("1", **QUOTA), workload("2", "1", **EVICTED)], "1", "", "2"),
        # ended
        ([workload("1", **REPLACED), workload("2", "1", **QUOTA)], "2", "", ""),
        ([workload("1", **REPLACED)], "", "", ""),
        ([workload("1", **REPLACED), workload("2", "1", Finished="FailedToStart")], "2", "", ""),
    ],
)
def test_the_roles_of_slices(slices: list[tuple[str, Json]], current: str, pending: str, surplus: str) -> None:
    for ordered in (slices, slices[::-1]):
        found = find_slices(dict(ordered))
        assert _name(found.current) == current
        assert _name(found.pending) == pending
        assert "".join(map(_name, found.surplus)) == surplus


def _name(entry: tuple[str, Json] | None) -> str:
    return "" if entry is None else entry[1]["metadata"]["name"]


def test_a_slice_is_replaced_by_one_with_quota() -> None:
    slices = dict([workload("1"), workload("2", "1", **REPLACED, **QUOTA), workload("3", "1", **QUOTA)])
    assert replacement_of("ns/1", slices) is slices["ns/3"]
    assert replacement_of("ns/2", slices) is None
    assert replacement_of("ns/1", dict([workload("1"), workload("2", "1")])) is None


def test_a_workload_without_annotations_is_the_first_of_its_job() -> None:
    _, plain = workload("1")
    assert (is_slice(plain), first_slice_name(plain)) == (False, "1")
    plain["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true", "kueue.x-k8s.io/workload-slice-name": "0"}
    assert (is_slice(plain), first_slice_name(plain)) == (True, "0")
