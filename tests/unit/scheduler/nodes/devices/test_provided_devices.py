"""The devices that nodes provide for extended resources."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.nodes.devices.provided_devices import (
    UNLIMITED,
    DeviceResource,
    ProvidedDevices,
    device_resources,
    with_devices,
)
from zonewise_scheduler.nodes.devices.resource_slices import ResourceSlice, decode_slice

Json = dict[str, Any]

RESOURCE, DRIVER = "example.com/gpu", "a.io"


def device_class(name: str = "c", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Json:
    metadata = {"name": name, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"extendedResourceName": RESOURCE, **spec}}


def new_slice(name: str, node: str, *devices: Json, pool: str = "", generation: int = 1, **spec: Any) -> ResourceSlice:
    spec = {"pool": {"name": pool or node, "generation": generation, "resourceSliceCount": 1}, **spec}
    spec |= {"nodeName": node} if node else {}
    named = [{"name": f"{name}-{i}", **device} for i, device in enumerate(devices)]
    obj = {"metadata": {"name": name}, "spec": {"driver": DRIVER, "devices": named, **spec}}
    return decode_slice(json.dumps(obj).encode())


def provided(
    *slices: ResourceSlice,
    node: str = "n",
    classes: tuple[Json, ...] = (device_class(),),
    resource: str = RESOURCE,
    held: dict[tuple[str, str], set[str]] | None = None,
) -> int:
    """Return the number of devices of a node in rack a."""
    devices = ProvidedDevices()
    devices.set_resources(device_resources(classes))
    devices.end_listing()
    for each in slices:
        devices.observe_slice(each.name, each)
    return count(devices, node, resource, held)


def count(
    devices: ProvidedDevices,
    node: str = "n",
    resource: str = RESOURCE,
    held: dict[tuple[str, str], set[str]] | None = None,
    allocatable: dict[str, str] | None = None,
) -> int:
    obj = {"metadata": {"name": node}, "status": {"allocatable": allocatable or {}}}
    if not devices.may_provide(node):
        return 0
    after = with_devices(obj, devices.counts(node, {"rack": "a"}, held or {}))
    return int(after["status"]["allocatable"].get(resource, 0))


def test_a_node_provides_the_devices_of_its_slices() -> None:
    slices = new_slice("s", "n", {}, {}), new_slice("t", "m", {})
    assert provided(*slices) == 2
    assert provided(*slices, node="m") == 1
    assert provided(*slices, node="o") == 0
    assert provided(*slices, classes=()) == 0


def test_tainted_devices_do_not_count() -> None:
    effects = ("NoSchedule", "NoExecute", "None")
    assert provided(new_slice("s", "n", *({"taints": [{"key": "k", "effect": effect}]} for effect in effects))) == 1


def test_only_devices_that_may_match_the_class_count() -> None:
    selected = device_class(selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].type == "gpu"'}}])
    devices = [{"attributes": {"type": {"string": kind}}} for kind in ("gpu", "mig", "gpu")]
    assert provided(new_slice("s", "n", *devices), classes=(selected,)) == 2


def test_the_newest_generation_of_a_pool_counts() -> None:
    """A generation that has no devices for the node does not replace an older one."""
    old, new = new_slice("s", "n", {}, {}, {}, pool="p"), new_slice("t", "n", {}, pool="p", generation=2)
    other = new_slice("u", "m", {}, pool="p", generation=3)
    assert provided(old, new, other) == 1


def test_devices_that_several_nodes_can_use_count_for_each() -> None:
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]
    shared = new_slice("s", "", {}, {}, pool="p", nodeSelector={"nodeSelectorTerms": terms})
    own = [{"nodeName": "n"}, {"allNodes": True}, {"nodeName": "m"}]
    assert provided(shared) == provided(shared, node="m") == 2
    assert provided(new_slice("s", "", *own, pool="p", perDeviceNodeSelection=True)) == 2


def test_devices_that_claims_hold_do_not_count() -> None:
    """Devices of slices that several nodes can use count, even if a claim holds them."""
    slices = new_slice("s", "n", {}, {}, {}, pool="p"), new_slice("t", "", {}, pool="q", allNodes=True)
    held = {(DRIVER, "p"): {"s-0", "s-2", "gone"}, (DRIVER, "q"): {"t-0"}, ("b.io", "p"): {"s-1"}}
    assert provided(*slices, held=held) == 2
    assert provided(*slices, resource="deviceclass.resource.kubernetes.io/c", held=held) == 2


def test_a_held_partition_takes_its_counters() -> None:
    consumers = [
        {"consumesCounters": [{"counterSet": "gpu", "counters": counters({"slices": n})}]} for n in (7, 4, 1, 1, 1, 1)
    ]
    declared = [{"name": "gpu", "counters": counters({"slices": 7})}]
    slices = new_slice("s", "n", *consumers, pool="p"), new_slice("t", "n", sharedCounters=declared, pool="p")
    assert [provided(*slices, held={(DRIVER, "p"): {f"s-{i}"}}) for i in range(3)] == [0, 3, 5]


def test_any_number_of_claims_can_share_some_devices() -> None:
    assert provided(new_slice("s", "n", {}, {"allowMultipleAllocations": True})) == UNLIMITED


def test_a_device_plugin_takes_precedence() -> None:
    devices = ProvidedDevices()
    devices.set_resources(device_resources([device_class()]))
    devices.end_listing()
    devices.observe_slice("s", new_slice("s", "n", {}, {}))
    assert count(devices, allocatable={RESOURCE: "8"}) == 8
    assert count(devices, allocatable={RESOURCE: "0"}) == 2


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        ([device_class("a"), device_class("b")], "a"),
        ([device_class("a"), device_class("b", "2026-01-02T00:00:00Z")], "b"),
        ([device_class("b"), device_class("a", "2025-01-02T00:00:00Z")], "b"),
    ],
)
def test_the_newest_class_provides_a_resource(classes: list[Json], name: str) -> None:
    for order in (classes, classes[::-1]):
        by_name = {resource.name: resource.device_class for resource in device_resources(order)}
        assert by_name[RESOURCE] == name
        assert len(by_name) == 3


def test_each_class_is_a_resource_for_claims() -> None:
    """A claim may tolerate taints."""
    resources = device_resources([{"metadata": {"name": "d"}}, {"metadata": {"name": "c"}, "spec": {}}])
    own = "deviceclass.resource.kubernetes.io"
    assert resources == tuple(DeviceResource(f"{own}/{name}", name, tolerant=True) for name in "cd")
    tainted = new_slice("s", "n", {"taints": [{"key": "k", "effect": "NoSchedule"}]}, {})
    assert provided(tainted) == 1
    assert provided(tainted, resource=f"{own}/c") == 2


def test_nothing_is_provided_before_all_slices_are_known() -> None:
    devices = ProvidedDevices()
    assert devices.set_resources(device_resources([device_class()]))
    devices.observe_slice("s", new_slice("s", "n", {}))
    assert count(devices) == 0
    assert devices.end_listing()
    assert not devices.end_listing()
    assert count(devices) == 1


def test_changes_name_the_nodes_that_may_have_changed() -> None:
    """Counters change all nodes of their pool."""
    devices = ProvidedDevices()
    assert devices.observe_slice("s", new_slice("s", "n", {}, pool="p")) == {"n"}
    assert devices.observe_slice("t", new_slice("t", "m", {}, pool="p", generation=2)) == {"m"}
    assert devices.observe_slice("c", new_slice("c", "m", pool="p", sharedCounters=[{"name": "gpu"}])) == {"n", "m"}
    assert devices.observe_slice("s", None) == {"n"}
    assert devices.observe_slice("t", new_slice("t", "o", {}, pool="q")) == {"m", "o"}
    assert devices.observe_slice("u", new_slice("u", "", {}, pool="r", allNodes=True)) is None
    assert devices.observe_slice("u", None) is None
    assert devices.observe_slice("missing", None) == set()


def counters(amounts: dict[str, int]) -> Json:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


AMOUNTS = st.dictionaries(st.sampled_from(["memory", "slices"]), st.integers(0, 4))
CONSUMED = st.dictionaries(st.sampled_from(["gpu-0", "gpu-1"]), AMOUNTS, max_size=2)


@given(st.lists(CONSUMED, max_size=6), st.dictionaries(st.sampled_from(["gpu-0", "gpu-1"]), AMOUNTS))
def test_no_more_devices_can_be_allocated_than_count(
    consumers: list[dict[str, dict[str, int]]], capacities: dict[str, dict[str, int]]
) -> None:
    """Counters that devices share bound the number of partitions. Sets of devices that fit are no larger."""
    devices = [
        {"consumesCounters": [{"counterSet": name, "counters": counters(each)} for name, each in consumed.items()]}
        for consumed in consumers
    ]
    declared = [{"name": name, "counters": counters(each)} for name, each in capacities.items()]
    slices = new_slice("s", "n", *devices), new_slice("t", "n", sharedCounters=declared)
    most = max(
        size
        for size in range(len(consumers) + 1)
        for chosen in combinations(consumers, size)
        if all(
            sum(consumed.get(name, {}).get(counter, 0) for consumed in chosen) <= capacity
            for name, amounts in capacities.items()
            for counter, capacity in amounts.items()
        )
    )
    assert most <= provided(*slices) <= len(consumers)


@pytest.mark.parametrize(
    "spec",
    [
        {"sharedCounters": [{"name": "gpu", "counters": {"slices": {"value": "many"}}}]},
        {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": 4}]}]}},
    ],
)
def test_an_invalid_slice_is_an_error_for_its_nodes(spec: Json) -> None:
    consumed = {"consumesCounters": [{"counterSet": "gpu", "counters": counters({"slices": 1})}]}
    slices = new_slice("s", "n", consumed), new_slice("t", "", pool="n", **spec), new_slice("u", "m", {})
    with pytest.raises(ValueError, match=r"quantity|nodeSelectorTerms"):
        provided(*slices)
    if "nodeSelector" not in spec:
        assert provided(*slices, node="m") == 1


def test_partitions_of_a_device_share_its_counters() -> None:
    """Seven slices allow at most seven partitions of one slice, whatever else the driver lists."""
    sizes = [1] * 7 + [2] * 3 + [4, 7]
    devices = [{"consumesCounters": [{"counterSet": "gpu", "counters": counters({"slices": size})}]} for size in sizes]
    declared = [{"name": "gpu", "counters": counters({"slices": 7})}]
    assert provided(new_slice("s", "n", *devices), new_slice("t", "n", sharedCounters=declared)) == 7


@st.composite
def changes_of_slices(draw: st.DrawFn) -> tuple[str, ResourceSlice | None]:
    """Return the name of one of a few slices, and its new state; None: it is deleted."""
    name, pool = draw(st.sampled_from("stuv")), draw(st.sampled_from("pq"))
    consumed = [{"consumesCounters": [{"counterSet": "gpu", "counters": counters({"slices": 1})}]}]
    devices = draw(st.lists(st.sampled_from([{}, *consumed]), max_size=3))
    variants: dict[str, Json] = {
        "all": {"allNodes": True},
        "own": {"perDeviceNodeSelection": True},
        "counters": {"allNodes": True, "sharedCounters": [{"name": "gpu", "counters": counters({"slices": 1})}]},
        "n": {},
        "m": {},
    }
    kind = draw(st.sampled_from([*variants, "deleted"]))
    if kind == "deleted":
        return name, None
    if kind == "own":
        devices = [{**device, "nodeName": draw(st.sampled_from("nm"))} for device in devices]
    generation, node = draw(st.integers(1, 2)), kind if kind in {"n", "m"} else ""
    return name, new_slice(name, node, *devices, pool=pool, generation=generation, **variants[kind])


@given(st.lists(changes_of_slices(), max_size=12))
def test_no_other_nodes_change_than_those_that_a_change_names(changes: list[tuple[str, ResourceSlice | None]]) -> None:
    """So counting these nodes again gives the same numbers as counting all of them."""
    devices = ProvidedDevices()
    devices.set_resources(device_resources([device_class()]))
    devices.end_listing()
    counted = dict.fromkeys("nm", 0)
    slices: dict[str, ResourceSlice] = {}
    for name, new in changes:
        affected = devices.observe_slice(name, new)
        slices.pop(name, None)
        if new is not None:
            slices[name] = new
        counted |= {node: count(devices, node) for node in ("nm" if affected is None else affected)}
        assert counted == {node: provided(*slices.values(), node=node) for node in "nm"}
