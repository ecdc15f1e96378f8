"""ResourceSlices, reduced to what bounds the number of devices."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from zonewise_scheduler.nodes.devices.resource_slices import UsableNodes, decode_slice

Json = dict[str, Any]


def decoded(**spec: Any) -> Any:
    spec = {"driver": "a.io", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 1}, **spec}
    return decode_slice(json.dumps({"metadata": {"name": "s"}, "spec": spec}).encode())


def test_the_devices_of_a_node() -> None:
    """Fields that do not affect the number of devices are dropped."""
    attributes = {"type": {"string": "gpu"}, "n": {"int": 2}, "ok": {"bool": False}, "v": {"version": "1.0.0"}}
    devices = [
        {"name": "d", "attributes": attributes, "capacity": {"memory": {"value": "1Gi"}}},
        {"name": "e", "taints": [{"key": "t", "effect": "NoSchedule"}]},
        {"name": "f", "taints": [{"key": "t", "effect": "None"}], "allowMultipleAllocations": True},
    ]
    read = decoded(nodeName="n", devices=devices)
    assert read[:6] == ("s", "a.io", "p", 3, {"n"}, False)
    first, second, third = read.content.devices
    assert first.attributes == attributes
    assert [device.is_tainted for device in (first, second, third)] == [False, True, False]
    assert [device.allow_multiple_allocations for device in (first, second, third)] == [False, False, True]


def test_the_devices_of_a_slice_may_select_nodes() -> None:
    named = [{"name": "d", "nodeName": "n"}, {"name": "e", "nodeName": "m"}]
    read = decoded(perDeviceNodeSelection=True, devices=named)
    assert read.nodes == {"n", "m"}
    assert [device.selects("n", {}) for device in read.content.devices] == [True, False]
    assert decoded(perDeviceNodeSelection=True, devices=[*named, {"name": "f", "allNodes": True}]).nodes is None


def test_counters_may_have_a_slice_of_their_own() -> None:
    assert decoded(allNodes=True, sharedCounters=[{"name": "gpu", "counters": {"slots": {"value": "7"}}}])[4:6] == (
        None,
        True,
    )


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        (UsableNodes(), False),
        (UsableNodes("n"), True),
        (UsableNodes("m"), False),
        (UsableNodes(all_nodes=True), True),
        (UsableNodes(node_selector={}), False),
        (UsableNodes(node_selector={"nodeSelectorTerms": [{"matchExpressions": []}]}), False),
    ],
)
def test_the_selection_of_nodes(selection: UsableNodes, *, selected: bool) -> None:
    assert selection.selects("n", {"rack": "a"}) is selected


@pytest.mark.parametrize(("rack", "selected"), [("a", True), ("b", False)])
def test_a_node_selector(rack: str, *, selected: bool) -> None:
    """One term must match with all of its requirements; metadata.name is the only field."""
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]}
    labelled = {"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}
    selection = UsableNodes(node_selector={"nodeSelectorTerms": [named, labelled]})
    assert selection.selects("n", {"rack": "a"}) is selected
    assert selection.selects("other", {})


def test_a_slice_without_a_driver_is_invalid() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_slice(json.dumps({"metadata": {"name": "s"}, "spec": {"pool": {"name": "p"}}}).encode())
