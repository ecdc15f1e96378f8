"""Patches of rule outputs on a Node: the agent's own appear and disappear, those of others remain."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise.publish.node_outputs import (
    NodeOutputs,
    NodePatches,
    groups_name,
    has_record,
    node_patches,
    record_name,
    withdrawal_patches,
)
from zonewise.rules.types import Taint

Json = dict[str, Any]
RECORD = record_name("own")
OUTPUTS = NodeOutputs({"x.io/a": "1"}, {"x.io/r": "2000"}, (Taint("x.io/t", "v", "NoSchedule"),))


def node(annotations: Json | None = None, capacity: Json | None = None, taints: list[Json] | None = None) -> Json:
    metadata: Json = {"name": "n", "resourceVersion": "7", "annotations": annotations or {}}
    status = {"capacity": capacity or {}, "allocatable": dict(capacity or {})}
    return {"metadata": metadata, "spec": {"taints": taints or []}, "status": status}


def merged(target: Json, patch: Json) -> Json:
    """Return the result of a merge patch (RFC 7386)."""
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(result.get(name) or {}, cast("Json", value))
        else:
            result[name] = value
    return result


def applied(current: Json, patches: NodePatches) -> Json:
    for patch in (patches.node, patches.status, patches.record):
        current = merged(copy.deepcopy(current), patch)
    return current


def written(current: Json, desired: NodeOutputs, instance: str = "own") -> Json:
    """Return the Node after a publish, which a second one does not change."""
    after = applied(current, node_patches(desired, current, instance))
    assert node_patches(desired, after, instance)[:3] == ({}, {}, {})
    return after


def test_outputs_come_and_go() -> None:
    before = node({"foreign": "x"}, {"cpu": "4"}, [{"key": "foreign", "effect": "NoExecute"}])
    after = written(before, OUTPUTS)
    assert after["metadata"]["annotations"]["x.io/a"] == "1"
    assert after["status"]["capacity"] == after["status"]["allocatable"] == {"cpu": "4", "x.io/r": "2000"}
    assert after["spec"]["taints"][1] == {"key": "x.io/t", "value": "v", "effect": "NoSchedule"}
    assert has_record(after, "own")
    assert written(after, NodeOutputs()) == before


def test_groups_are_recorded_and_remain_while_they_are_unknown() -> None:
    before = node({groups_name("other"): "ns/other"})
    after = written(before, NodeOutputs(groups=("ns/b", "ns/a")))
    assert after["metadata"]["annotations"] == {groups_name("other"): "ns/other", groups_name("own"): "ns/a,ns/b"}
    assert written(after, NodeOutputs(groups=None)) == after
    none = written(after, NodeOutputs(groups=()))
    assert none["metadata"]["annotations"][groups_name("own")] == ""
    assert has_record(none, "own")


def test_a_withdrawal_leaves_nothing_behind() -> None:
    before = node({"foreign": "x"}, {"cpu": "4"})
    for outputs in (OUTPUTS, OUTPUTS._replace(groups=("ns/a",)), NodeOutputs(groups=())):
        after = written(before, outputs)
        assert applied(after, withdrawal_patches(after, "own")) == before
    assert withdrawal_patches(before, "own")[:3] == ({}, {}, {})


def test_names_of_annotations_are_valid_for_every_instance() -> None:
    for name in (record_name, groups_name):
        assert len(name("x" * 60).partition("/")[2]) <= 63
        assert name("x" * 60) != name("x" * 61)


def test_the_record_precedes_resources_and_outlives_them() -> None:
    """A crash between two patches leaves no resource without a record."""
    empty = node()
    adding = node_patches(OUTPUTS, empty, "own")
    assert json.loads(adding.node["metadata"]["annotations"][RECORD])["extendedResources"] == ["x.io/r"]
    full = applied(empty, adding)
    removing = node_patches(NodeOutputs(), full, "own")
    stopped = merged(full, removing.node)
    assert json.loads(stopped["metadata"]["annotations"][RECORD]) == {"extendedResources": ["x.io/r"]}
    assert written(stopped, NodeOutputs()) == empty


def test_existing_outputs_belong_to_another_manager() -> None:
    taken = node({"x.io/a": "theirs"}, {"x.io/r": "5"}, [{"key": "x.io/t", "value": "w", "effect": "NoSchedule"}])
    patches = node_patches(OUTPUTS, taken, "own")
    assert applied(taken, patches) == taken
    assert [problem.split(" has ")[0] for problem in patches.problems] == [
        "annotation x.io/a", "extended resource x.io/r", "taint x.io/t:NoSchedule",
    ]  # fmt: skip


def test_equal_quantities_are_equal() -> None:
    after = written(node(), OUTPUTS)
    stored = {"cpu": "4", "x.io/r": "2k"}
    after["status"] = {"capacity": stored, "allocatable": stored}
    assert node_patches(OUTPUTS, after, "own")[:3] == ({}, {}, {})


def test_a_resource_that_the_kubelet_has_zeroed_is_set_again() -> None:
    after = written(node(), OUTPUTS)
    after["status"]["capacity"]["x.io/r"] = "0"
    assert node_patches(OUTPUTS, after, "own").status["status"]["capacity"] == {"x.io/r": "2000"}


def test_outputs_claimed_by_nfd_are_no_longer_ours() -> None:
    ours = written(node(), NodeOutputs({"feature.node.kubernetes.io/a": "1"}, {"x.io/r": "1"}, OUTPUTS.taints))
    claims = {
        "nfd.node.kubernetes.io/feature-annotations": "a",
        "one.nfd.node.kubernetes.io/extended-resources": "x.io/r",
        "nfd.node.kubernetes.io/taints": "x.io/t=v:NoSchedule",
    }
    ours["metadata"]["annotations"].update(claims)
    after = written(ours, NodeOutputs())
    assert after["metadata"]["annotations"] == {"feature.node.kubernetes.io/a": "1", **claims}
    assert (after["status"], after["spec"]) == (ours["status"], ours["spec"])


def test_a_damaged_record_removes_nothing() -> None:
    for text in ("", "[", "[]", "5", '{"annotations": 5}', '{"annotations": [5, null]}'):
        damaged = node({RECORD: text, "x.io/a": "1"})
        assert applied(damaged, node_patches(NodeOutputs(), damaged, "own")) == node({"x.io/a": "1"})


def test_long_names_of_instances() -> None:
    name = record_name("n" * 300)
    assert len(name.partition("/")[2]) <= 63
    assert name != record_name("n" * 301)


NAMES = st.sampled_from(["x.io/a", "x.io/b"])
DESIRED = st.builds(
    NodeOutputs,
    st.dictionaries(NAMES, st.sampled_from(["1", "2"])),
    st.dictionaries(NAMES, st.sampled_from(["1", "2"])),
    st.lists(
        st.builds(Taint, NAMES, st.sampled_from(["", "v"]), st.just("NoExecute")), max_size=2, unique_by=lambda t: t.key
    ).map(tuple),
)
STEPS = st.lists(st.tuples(st.sampled_from(["one", "two", "foreign"]), DESIRED), max_size=6)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_agents_never_overwrite_each_other(steps: list[tuple[str, NodeOutputs]]) -> None:
    """In any order of writes, an agent changes no output of another, and nothing remains after all withdraw."""
    start = node({"x.io/b": "foreign"}, {"x.io/b": "9"})
    current = start
    for instance, desired in steps:
        others = {other: json.loads(text) for other, text in records(current).items() if other != record_name(instance)}
        values = {other: owned_values(current, record) for other, record in others.items()}
        current = written(current, desired, instance)
        assert {other: owned_values(current, record) for other, record in others.items()} == values
    for instance in ("one", "two", "foreign"):
        current = written(current, NodeOutputs(), instance)
    assert current == start


def records(current: Json) -> dict[str, str]:
    annotations = current["metadata"]["annotations"]
    return {name: text for name, text in annotations.items() if name.startswith("zonewise.dev/rules.")}


def owned_values(current: Json, record: Json) -> Json:
    taints = {f"{taint['key']}:{taint['effect']}": taint for taint in current["spec"]["taints"]}
    places = {
        "annotations": current["metadata"]["annotations"],
        "extendedResources": current["status"]["capacity"],
        "taints": taints,
    }
    return {kind: {name: places[kind].get(name) for name in names} for kind, names in record.items()}
