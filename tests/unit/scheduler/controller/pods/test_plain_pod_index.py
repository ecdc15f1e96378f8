"""The pods of plain-pod jobs, by job."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.pods.plain_pod_index import RECHECK, PlainJobKey, PlainPodIndex

Json = dict[str, Any]


def pod(group: str = "", *, deleted: bool = False) -> Json:
    metadata: Json = {"annotations": {"kueue.x-k8s.io/pod-group-name": group} if group else {}}
    return {"metadata": metadata | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "g", "h"]), st.booleans()), max_size=20))
def test_each_job_has_its_pods_after_any_changes(changes: list[tuple[str, str, bool]]) -> None:
    index, pods, seen = PlainPodIndex(), dict[str, str](), dict[PlainJobKey, int]()
    for name, group, exists in changes:
        index.observe("ns", name, pod(group) if exists else None)
        pods.pop(name, None)
        if exists:
            pods[name] = group
        for key, members in index.take_dirty(0.0):
            seen[key] = len(members)
    groups = {group for group in pods.values() if group}
    expected = {PlainJobKey("ns", group, ""): list(pods.values()).count(group) for group in groups}
    expected |= {PlainJobKey("ns", "", name): 1 for name, group in pods.items() if not group}
    for key in expected:
        index.mark_workload("ns", key.group, [key.pod])
    assert {key: len(members) for key, members in index.take_dirty(0.0)} == expected
    assert expected.items() <= seen.items()


def test_a_job_with_a_deleted_pod_is_checked_again_later() -> None:
    index = PlainPodIndex()
    index.observe("ns", "a", pod(deleted=True))
    assert len(index.take_dirty(0.0)) == 1
    assert index.recheck_at == RECHECK
    assert not index.take_dirty(RECHECK - 1)
    assert len(index.take_dirty(RECHECK)) == 1


def test_the_job_of_a_marked_pod_or_workload_is_checked_again() -> None:
    index = PlainPodIndex()
    index.observe("ns", "a", pod())
    index.observe("ns", "b", pod("g"))
    index.take_dirty(0.0)
    index.mark_pod("ns", "a")
    index.mark_pod("ns", "unknown")
    index.mark_workload("ns", "g", [])
    assert {key for key, _ in index.take_dirty(0.0)} == {PlainJobKey("ns", "", "a"), PlainJobKey("ns", "g", "")}
