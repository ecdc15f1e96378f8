"""Watches: the embedded API server behaves like the real one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from support.apiserver import real_server
from support.clusters import Cluster, cluster, config_map, embedded_server, version_of, widget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.api import Json

__all__ = ["cluster", "embedded_server", "real_server"]


def type_and_name(event: Json) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def take(events: Iterator[Json], count: int) -> list[tuple[str, str]]:
    return [type_and_name(next(events)) for _ in range(count)]


def now(cluster: Cluster) -> str:
    return cluster.api.get(cluster.config_maps).ok()["metadata"]["resourceVersion"]


def test_a_watch_sends_changes_in_order(cluster: Cluster) -> None:
    with cluster.api.watch(cluster.config_maps, resourceVersion=now(cluster)) as events:
        first = cluster.api.post(cluster.config_maps, config_map("one")).ok()
        second = cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "1"}}).ok()
        cluster.api.delete(f"{cluster.config_maps}/one").ok()
        added, modified, deleted = next(events), next(events), next(events)
    assert added == {"type": "ADDED", "object": first}
    assert modified == {"type": "MODIFIED", "object": second}
    assert type_and_name(deleted) == ("DELETED", "one")
    assert version_of(deleted["object"]) > version_of(second)
    assert deleted["object"]["data"] == {"a": "1"}


def test_a_watch_from_a_version_sends_later_changes(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("before")).ok()
    since = now(cluster)
    cluster.api.post(cluster.config_maps, config_map("after")).ok()
    cluster.api.delete(f"{cluster.config_maps}/before").ok()
    with cluster.api.watch(cluster.config_maps, resourceVersion=since) as events:
        assert take(events, 2) == [("ADDED", "after"), ("DELETED", "before")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_a_watch_without_a_version_begins_with_all_objects(cluster: Cluster, query: dict[str, str]) -> None:
    cluster.api.post(cluster.config_maps, config_map("a")).ok()
    cluster.api.post(cluster.config_maps, config_map("b")).ok()
    cluster.api.patch(f"{cluster.config_maps}/a", {"data": {"a": "1"}}).ok()
    cluster.wait_for_cache()  # a lagging cache would merge both events (cacher.go getWatchCacheResourceVersion)
    with cluster.api.watch(cluster.config_maps, **query) as events:
        assert sorted(take(events, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        cluster.api.post(cluster.config_maps, config_map("c")).ok()
        assert take(events, 1) == [("ADDED", "c")]


def test_the_initial_events_end_in_a_bookmark(cluster: Cluster) -> None:
    """A client needs this bookmark to replace a list by a watch (KEP-3157)."""
    cluster.api.post(cluster.config_maps, config_map("a")).ok()
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with cluster.api.watch(cluster.config_maps, **query) as events:
        assert take(events, 1) == [("ADDED", "a")]
        bookmark = next(events)
        cluster.api.post(cluster.config_maps, config_map("b")).ok()
        assert take(events, 1) == [("ADDED", "b")]
    assert bookmark["type"] == "BOOKMARK"
    found = bookmark["object"]
    assert (found["kind"], found["apiVersion"]) == ("ConfigMap", "v1")
    assert found["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert version_of(found) > 0


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
    ],
)
def test_initial_events_require_not_older_than(cluster: Cluster, query: dict[str, str]) -> None:
    cluster.api.get(cluster.config_maps, watch="true", **query).refused(422, "Invalid")


def test_a_watch_ends_in_time(cluster: Cluster) -> None:
    start = time.monotonic()
    with cluster.api.watch(cluster.config_maps, timeoutSeconds=1, resourceVersion=now(cluster)) as events:
        assert list(events) == []
    assert time.monotonic() - start > 0.9


def test_the_end_of_a_watch_leaves_the_connection_usable(cluster: Cluster) -> None:
    """The chunked body ends as HTTP specifies, so a client can reuse the connection."""
    for _ in range(2):
        with cluster.api.watch(cluster.config_maps, timeoutSeconds=1) as events:
            assert list(events) == []


def test_a_version_that_is_too_old_is_expired(cluster: Cluster) -> None:
    """The response status is 200, and the error is an event: an admitted watch reports all errors in this way."""
    plural = f"olds{cluster.namespace[-5:]}"
    path = cluster.define(plural)
    if not cluster.real:
        pytest.skip("the embedded server remembers all, until forget_history(): tests/unit/sandbox/apiserver")
    with cluster.api.watch(path, resourceVersion="1", timeoutSeconds=1) as events:
        (event,) = events
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["kind"] == "Status"


def test_a_watch_waits_for_a_version_from_the_future(cluster: Cluster) -> None:
    with cluster.api.watch(cluster.config_maps, resourceVersion="99999999", timeoutSeconds=1) as events:
        cluster.api.post(cluster.config_maps, config_map("one")).ok()
        assert list(events) == []


def test_an_invalid_version_is_rejected(cluster: Cluster) -> None:
    assert cluster.api.get(cluster.config_maps, watch="true", resourceVersion="nonsense").status == 500


def test_a_watch_of_all_namespaces(cluster: Cluster) -> None:
    labels = {"test": cluster.namespace}
    with cluster.api.watch(
        "/api/v1/configmaps", resourceVersion=now(cluster), labelSelector=f"test={cluster.namespace}"
    ) as events:
        cluster.api.post("/api/v1/namespaces/default/configmaps", config_map(cluster.namespace, labels)).ok()
        cluster.api.post(cluster.config_maps, config_map("one", labels)).ok()
        assert take(events, 2) == [("ADDED", cluster.namespace), ("ADDED", "one")]


def test_a_watch_of_one_namespace_sends_no_events_of_others(cluster: Cluster) -> None:
    with cluster.api.watch(cluster.config_maps, resourceVersion=now(cluster)) as events:
        cluster.api.post("/api/v1/namespaces/default/configmaps", config_map(cluster.namespace)).ok()
        cluster.api.post(cluster.config_maps, config_map("one")).ok()
        assert take(events, 1) == [("ADDED", "one")]


def test_objects_enter_and_leave_a_selection(cluster: Cluster) -> None:
    """An object that begins to match is ADDED; one that no longer matches is DELETED, in its new state."""
    path = f"{cluster.config_maps}/one"
    with cluster.api.watch(cluster.config_maps, resourceVersion=now(cluster), labelSelector="in=yes") as events:
        cluster.api.post(cluster.config_maps, config_map("one", {"in": "no"})).ok()
        cluster.api.patch(path, {"metadata": {"labels": {"in": "yes"}}}).ok()
        cluster.api.patch(path, {"data": {"a": "1"}}).ok()
        left = cluster.api.patch(path, {"metadata": {"labels": {"in": "no"}}}).ok()
        cluster.api.delete(path).ok()
        cluster.api.post(cluster.config_maps, config_map("two", {"in": "yes"})).ok()
        found = [next(events) for _ in range(4)]
    assert [type_and_name(event) for event in found] == [
        ("ADDED", "one"),
        ("MODIFIED", "one"),
        ("DELETED", "one"),
        ("ADDED", "two"),
    ]
    assert version_of(found[2]["object"]) == version_of(left)


def test_a_watch_of_one_object(cluster: Cluster) -> None:
    """A watch has no name in its path, so a field selector names the object."""
    with cluster.api.watch(
        cluster.config_maps, resourceVersion=now(cluster), fieldSelector="metadata.name=two"
    ) as events:
        for name in ("one", "two", "three"):
            cluster.api.post(cluster.config_maps, config_map(name)).ok()
        cluster.api.delete(f"{cluster.config_maps}/two").ok()
        assert take(events, 2) == [("ADDED", "two"), ("DELETED", "two")]


def test_a_write_without_a_change_sends_no_event(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    with cluster.api.watch(cluster.config_maps, resourceVersion=now(cluster)) as events:
        cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "1"}}).ok()
        cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "2"}}, dryRun="All").ok()
        cluster.api.post(cluster.config_maps, config_map("two")).ok()
        assert take(events, 1) == [("ADDED", "two")]


def test_a_finalizer_makes_a_deletion_a_change(cluster: Cluster) -> None:
    body = {"metadata": {"name": "one", "finalizers": ["example.com/a"]}}
    with cluster.api.watch(cluster.config_maps, resourceVersion=now(cluster)) as events:
        cluster.api.post(cluster.config_maps, body).ok()
        cluster.api.delete(f"{cluster.config_maps}/one").ok()
        cluster.api.patch(f"{cluster.config_maps}/one", {"metadata": {"finalizers": None}}).ok()
        assert take(events, 3) == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]


def test_custom_resources_are_watched(cluster: Cluster) -> None:
    cluster.define()
    since = cluster.api.get(cluster.widgets).ok()["metadata"]["resourceVersion"]
    with cluster.api.watch(cluster.widgets, resourceVersion=since) as events:
        first = cluster.api.post(cluster.widgets, widget("one")).ok()
        assert next(events) == {"type": "ADDED", "object": first}


def test_all_watches_receive_the_same_events(cluster: Cluster) -> None:
    since = now(cluster)
    with (
        cluster.api.watch(cluster.config_maps, resourceVersion=since) as one,
        cluster.api.watch(cluster.config_maps, resourceVersion=since) as other,
    ):
        for number in range(20):
            cluster.api.post(cluster.config_maps, config_map(f"c{number}")).ok()
        assert [next(one) for _ in range(20)] == [next(other) for _ in range(20)]
