"""Lists: selectors, pages and versions. The embedded API server behaves like the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.apiserver import real_server
from support.clusters import Cluster, cluster, config_map, embedded_server, pod, version_of

if TYPE_CHECKING:
    from support.api import Json

__all__ = ["cluster", "embedded_server", "real_server"]


def names(listed: Json) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def some(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.api.post(cluster.config_maps, config_map(f"c{number}", {"number": str(number)})).ok()


def test_a_list_has_a_kind_and_a_version(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    listed = cluster.api.get(cluster.config_maps).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert version_of(listed) >= max(map(version_of, listed["items"]))


def test_a_list_is_sorted_by_name(cluster: Cluster) -> None:
    for name in ("b", "a", "c"):
        cluster.api.post(cluster.config_maps, config_map(name)).ok()
    assert names(cluster.api.get(cluster.config_maps).ok()) == ["a", "b", "c"]


def test_a_list_of_all_namespaces(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one", {"test": cluster.namespace})).ok()
    listed = cluster.api.get("/api/v1/configmaps", labelSelector=f"test={cluster.namespace}").ok()
    assert [item["metadata"]["namespace"] for item in listed["items"]] == [cluster.namespace]
    cluster.api.post("/api/v1/configmaps", config_map("one")).refused(405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("colour=red", "ab"),
        ("colour==red", "ab"),
        ("colour!=red", "cd"),
        ("colour in (red,blue)", "abc"),
        ("colour notin (red)", "cd"),
        ("colour notin (red, blue)", "d"),
        ("colour", "abc"),
        ("!colour", "d"),
        ("colour=red,size=big", "a"),
        ("size!=big,colour", "bc"),
        ("colour in (red),size in (big,small)", "ab"),
        ("colour=", ""),
        ("example.com/kind=x", "d"),
        ("number>3", "b"),
        ("number<3", "a"),
        ("", "abcd"),
    ],
)
def test_label_selectors(cluster: Cluster, selector: str, found: str) -> None:
    labels = {
        "a": {"colour": "red", "size": "big", "number": "2"},
        "b": {"colour": "red", "size": "small", "number": "10"},
        "c": {"colour": "blue"},
        "d": {"example.com/kind": "x"},
    }
    for name, own in labels.items():
        cluster.api.post(cluster.config_maps, config_map(name, own)).ok()
    assert "".join(names(cluster.api.get(cluster.config_maps, labelSelector=selector).ok())) == found


@pytest.mark.parametrize("selector", ["a in", "a in (", "=b", "a=b c", "a,,b", "!", "a in (b", "a ~ b"])
def test_bad_label_selectors_are_rejected(cluster: Cluster, selector: str) -> None:
    cluster.api.get(cluster.config_maps, labelSelector=selector).refused(400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "bc"),
        ("spec.nodeName=n1", "b"),
        ("spec.nodeName=", "ac"),
        ("spec.nodeName!=,status.phase=Pending", "b"),
        ("status.phase=Running", "c"),
        ("status.phase!=Running,metadata.name!=a", "b"),
    ],
)
def test_field_selectors_of_pods(cluster: Cluster, selector: str, found: str) -> None:
    for name in "abc":
        cluster.api.post(cluster.pods, pod(name, **({"nodeName": "n1"} if name == "b" else {}))).ok()
    cluster.api.patch(f"{cluster.pods}/c/status", {"status": {"phase": "Running"}}).ok()
    assert "".join(names(cluster.api.get(cluster.pods, fieldSelector=selector).ok())) == found


def test_field_selectors_of_any_kind(cluster: Cluster) -> None:
    some(cluster, 2)
    selector = f"metadata.name=c1,metadata.namespace={cluster.namespace}"
    assert names(cluster.api.get("/api/v1/configmaps", fieldSelector=selector).ok()) == ["c1"]


@pytest.mark.parametrize("selector", ["spec.nodeName=x", "data.a=b", "metadata.name"])
def test_bad_field_selectors_are_rejected(cluster: Cluster, selector: str) -> None:
    cluster.api.get(cluster.config_maps, fieldSelector=selector).refused(400, "BadRequest")


def test_pages_add_up_to_the_list(cluster: Cluster) -> None:
    some(cluster, 5)
    found: list[list[str]] = []
    remaining: list[int | None] = []
    token = ""
    while True:
        listed = cluster.api.get(cluster.config_maps, limit=2, **({"continue": token} if token else {})).ok()
        found.append(names(listed))
        remaining.append(listed["metadata"].get("remainingItemCount"))
        token = listed["metadata"].get("continue", "")
        if not token:
            break
    assert found == [["c0", "c1"], ["c2", "c3"], ["c4"]]
    assert remaining == [3, 1, None]


def test_all_pages_show_the_same_version(cluster: Cluster) -> None:
    some(cluster, 4)
    first = cluster.api.get(cluster.config_maps, limit=2).ok()
    cluster.api.delete(f"{cluster.config_maps}/c3").ok()
    cluster.api.post(cluster.config_maps, config_map("c2a")).ok()
    cluster.api.patch(f"{cluster.config_maps}/c2", {"data": {"new": "1"}}).ok()
    second = cluster.api.get(cluster.config_maps, limit=2, **{"continue": first["metadata"]["continue"]}).ok()
    assert names(second) == ["c2", "c3"]
    assert "data" not in second["items"][0]
    assert version_of(second) == version_of(first)


def test_pages_of_a_selection(cluster: Cluster) -> None:
    some(cluster, 5)
    listed = cluster.api.get(cluster.config_maps, limit=2, labelSelector="number notin (1,2)").ok()
    assert names(listed) == ["c0", "c3"]
    assert "remainingItemCount" not in listed["metadata"]
    token = listed["metadata"]["continue"]
    rest = cluster.api.get(cluster.config_maps, limit=2, labelSelector="number notin (1,2)", **{"continue": token}).ok()
    assert names(rest) == ["c4"]


def test_an_invalid_continue_token_is_rejected(cluster: Cluster) -> None:
    cluster.api.get(cluster.config_maps, limit=1, **{"continue": "nonsense"}).refused(400, "BadRequest")


def test_a_future_version_times_out(cluster: Cluster) -> None:
    status = cluster.api.get(cluster.config_maps, resourceVersion="99999999").refused(504, "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert status["details"]["retryAfterSeconds"] == 1


def test_a_version_is_a_number(cluster: Cluster) -> None:
    cluster.api.get(cluster.config_maps, resourceVersion="nonsense").refused(400, "BadRequest")


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}, {"resourceVersion": "1"}])
def test_an_old_version_is_a_lower_bound(cluster: Cluster, query: dict[str, str]) -> None:
    """Without resourceVersionMatch, a list is at least as new as the version."""
    some(cluster, 1)
    cluster.wait_for_cache()
    assert names(cluster.api.get(cluster.config_maps, **query).ok()) == ["c0"]


def test_exactly_this_version(cluster: Cluster) -> None:
    some(cluster, 1)
    version = cluster.api.get(cluster.config_maps).ok()["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert names(cluster.api.get(cluster.config_maps, **query).ok()) == ["c0"]


def test_a_match_needs_a_version(cluster: Cluster) -> None:
    cluster.api.get(cluster.config_maps, resourceVersionMatch="Exact").refused(422, "Invalid")
    query = {"resourceVersionMatch": "Roughly", "resourceVersion": "1"}
    cluster.api.get(cluster.config_maps, **query).refused(422, "Invalid")
