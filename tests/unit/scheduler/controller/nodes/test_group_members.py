"""The status of NodeFeatureGroups, which follows from what agents record on their Nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.nodes.group_members import (
    SECONDS_PER_NODE,
    GroupMembers,
    ObservedGroup,
    decode_group,
)

GROUPS = [f"ns/{name}" for name in "ab"]
NODES = st.sampled_from(["m", "n", "o"])
OBSERVATIONS = st.tuples(NODES, st.none() | st.frozensets(st.sampled_from(GROUPS)))


def group(name: str, *nodes: str) -> ObservedGroup:
    return ObservedGroup(name, "7", nodes)


@given(st.lists(OBSERVATIONS, max_size=12))
def test_the_status_equals_what_the_nodes_record(observations: list[tuple[str, frozenset[str] | None]]) -> None:
    """After any history, every change is reported, and the write lists the nodes that record the group."""
    members, statuses = GroupMembers(), {name: ["stale"] for name in GROUPS}
    for name in GROUPS:
        members.observe_group(name, group(name, "stale"))
    recorded: dict[str, frozenset[str]] = {}
    for node, groups in observations:
        changed = set(members.observe_node(node, groups))
        recorded[node] = groups or frozenset()
        for name in GROUPS:
            write = members.status_write(name)
            if write is not None and name in changed:
                assert isinstance(write.body, dict)
                statuses[name] = [entry["name"] for entry in write.body["status"]["nodes"]]
                members.observe_group(name, group(name, *statuses[name]))
    is_evaluated = any(groups is not None for _, groups in observations)
    for name in GROUPS:
        expected = sorted(node for node, groups in recorded.items() if name in groups)
        assert statuses[name] == (expected if is_evaluated else ["stale"])
        assert members.status_write(name) is None


def test_a_write_names_the_object_and_its_version() -> None:
    members = GroupMembers()
    members.observe_node("n", frozenset({"ns/a"}))
    assert members.status_write("ns/a") is None
    members.observe_group("ns/a", group("ns/a"))
    write = members.status_write("ns/a")
    assert write is not None
    assert (str(write.key), write.subresource, write.resource_version) == ("NodeFeatureGroup ns/a", "status", "7")
    assert members.interval("ns/a") == SECONDS_PER_NODE
    members.observe_group("ns/a", None)
    assert members.status_write("ns/a") is None


@pytest.mark.parametrize(("status", "nodes"), [({}, ()), ({"nodes": None}, ()), ({"nodes": [{"name": "n"}]}, ("n",))])
def test_a_decoded_group_has_the_nodes_of_its_status(status: dict[str, object], nodes: tuple[str, ...]) -> None:
    metadata: dict[str, Any] = {"name": "a", "namespace": "ns", "resourceVersion": "7", "managedFields": [{}]}
    document: dict[str, Any] = {"metadata": metadata, "spec": {"featureGroupRules": []}, "status": status}
    assert decode_group(json.dumps(document).encode()) == group("ns/a", *nodes)
