"""The newest known state of objects, from watches and from responses to writes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller.cluster_cache import CATCH_UP, ObjectCache, WorkloadIndex
from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

KEY = ObjectKey(JOBS, "ns", "j")


def job(version: int, uid: str = "u") -> Json:
    return {"metadata": {"namespace": "ns", "name": "j", "uid": uid, "resourceVersion": str(version)}}


def test_an_older_event_does_not_undo_the_result_of_a_write() -> None:
    cache = ObjectCache()
    assert cache.observe(KEY, job(3), 0.0)
    assert cache.written(KEY, job(5), 0.0)
    assert not cache.observe(KEY, job(4), 1.0)
    assert cache.get(KEY) == job(5)
    assert cache.observe(KEY, job(6), 1.0)


def test_a_response_after_a_listing_of_the_same_version_is_no_new_state() -> None:
    """Items of a listing lack apiVersion and kind, which a response has; still, both are the same version."""
    cache = ObjectCache()
    cache.unlisted(JOBS, 4)
    assert cache.observe(KEY, job(5), 0.0)
    assert not cache.written(KEY, {"apiVersion": "batch/v1", "kind": "Job", **job(5)}, 0.0)
    assert cache.unlisted(JOBS, 5000) == [], "the next listing has it unchanged, so no event shows it again"


def test_a_known_state_is_no_change_in_either_order_of_watch_and_response() -> None:
    cache = ObjectCache()
    assert cache.written(KEY, job(5), 0.0)
    assert not cache.observe(KEY, job(5), 1.0)
    assert cache.observe(KEY, job(4), 1.0)  # the watch has caught up, so its events count again
    assert cache.observe(KEY, job(7), 2.0)
    assert not cache.written(KEY, job(7), 2.0)
    assert cache.observe(KEY, None, 3.0)
    assert not cache.observe(KEY, None, 3.0)


def test_a_different_state_with_the_same_version_after_an_etcd_restore_is_a_change() -> None:
    cache = ObjectCache()
    cache.observe(KEY, job(5), 0.0)
    assert cache.observe(KEY, {**job(5), "spec": {}}, 1.0)
    assert cache.observe(KEY, job(5, "new"), 2.0)


def test_a_watch_that_never_catches_up_eventually_counts() -> None:
    cache = ObjectCache()
    cache.written(KEY, job(500), 0.0)
    assert not cache.observe(KEY, job(7), CATCH_UP - 1)
    assert cache.observe(KEY, job(7), CATCH_UP)


def test_a_deletion_counts_at_once_and_a_late_response_does_not_hide_a_new_object() -> None:
    cache = ObjectCache()
    cache.observe(KEY, job(3), 0.0)
    assert cache.observe(KEY, None, 0.0)
    assert cache.get(KEY) is None
    cache.observe(KEY, job(9, "new"), 0.0)
    assert not cache.written(KEY, job(4, "new"), 0.0)
    assert cache.get(KEY) == job(9, "new")


def test_a_written_object_that_a_later_listing_lacks_is_deleted() -> None:
    cache = ObjectCache()
    cache.written(KEY, job(5), 0.0)
    assert not cache.unlisted(JOBS, 4), "the listing is older"
    assert not cache.unlisted(WORKLOADS, 9), "of another kind"
    assert cache.unlisted(JOBS, 5) == [KEY]
    cache.observe(KEY, job(5), 1.0)
    assert not cache.unlisted(JOBS, 9)


def test_a_response_after_the_deletion_of_its_object_is_ignored() -> None:
    """A Job is deleted while its Workload is created: the watch shows creation and deletion ahead of the response."""
    cache = ObjectCache()
    cache.observe(KEY, job(5), 0.0)
    cache.observe(KEY, None, 0.1)
    assert not cache.written(KEY, job(5), 0.2)
    assert cache.get(KEY) is None
    assert cache.written(KEY, job(7, "new"), 0.3), "another object of the name"


def test_a_response_older_than_a_listing_without_its_object_is_ignored() -> None:
    cache = ObjectCache()
    cache.unlisted(JOBS, 6)
    assert not cache.written(KEY, job(5), 0.2)
    assert cache.written(KEY, job(7), 0.3)
    cache.observe(KEY, None, 0.4)
    cache.unlisted(JOBS, 2)  # etcd was restored from a backup
    assert cache.written(KEY, job(3, "new"), 0.5)


def test_removed_objects_are_remembered_for_a_bounded_time() -> None:
    cache = ObjectCache()
    for i in range(1000):
        cache.observe(KEY, job(i, f"u{i}"), float(i))
        cache.observe(KEY, None, float(i))
    assert not cache.written(KEY, job(999, "u999"), 999.0)
    assert cache.written(KEY, job(3, "u3"), 999.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), st.booleans()), max_size=20))
def test_the_index_has_exactly_the_workloads_of_each_owner(changes: list[tuple[str, str, bool]]) -> None:
    index, expected = WorkloadIndex(), dict[str, Json]()
    for name, owner, exists in changes:
        references = [{"uid": owner, "controller": True}] if owner else []
        workload = {"metadata": {"name": name, "ownerReferences": references}} if exists else None
        index.set(name, workload)
        expected.pop(name, None)
        if workload is not None:
            expected[name] = workload
    assert index.by_key == expected
    for owner in ("x", "y"):
        owned = {name: obj for name, obj in expected.items() if {"uid": owner, "controller": True} in
                 obj["metadata"]["ownerReferences"]}  # fmt: skip
        assert index.owned_by(owner) == owned
