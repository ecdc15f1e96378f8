"""Damaged objects: the damage is reported, the rest is read, and no object raises an error."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.agent_objects import TWO, Object, attribute, edited, set_attribute, two_zones
from zonewise_common.nrt import names
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import NodeReport, read_nrt

FIRST = "zones", 0


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("metadata",), {}, "metadata.name: not a name: None"),
        (("metadata",), 5, "metadata: not an object: 5"),
        (("metadata", "name"), "", "metadata.name: not a name: ''"),
        (("metadata", "name"), 5, "metadata.name: not a name: 5"),
        (("attributes",), 5, "attributes: not a list: 5"),
        (("attributes", 0), {"name": 5}, "attributes[0]: not a name and its value: {'name': 5}"),
        (("zones",), None, "zones: no zone of type Node could be read"),
        (("zones", 0), 5, "zones[0]: not an object: 5"),
        ((*FIRST, "name"), "node-x", "zones[0].name: not \"node-\" and the id of a NUMA node: 'node-x'"),
        ((*FIRST, "name"), "node-99999", "zones[0].name: not \"node-\" and the id of a NUMA node: 'node-99999'"),
        (("zones", 1, "name"), "node-0", "zones[1].name: 'node-0' exists already: the first one is used"),
        ((*FIRST, "resources", 1, "available"), "x", "zones[0].resources[1] (memory): not a quantity: 'x'"),
        ((*FIRST, "resources", 1, "available"), "-1", "zones[0].resources[1] (memory): negative: '-1'"),
        ((*FIRST, "resources", 1, "capacity"), [], "zones[0].resources[1] (memory): not a quantity: '[]'"),
        ((*FIRST, "resources", 1, "name"), "cpu", "zones[0].resources[1].name: 'cpu' exists already: the first"),
        ((*FIRST, "resources", 1, "name"), None, "zones[0].resources[1].name: not a name: None"),
        ((*FIRST, "costs", 0), {"name": "node-0"}, "zones[0].costs[0]: not a zone and its distance: {'name'"),
        ((*FIRST, "attributes"), [attribute(names.CPUS, "9-1")], "node-0 zonewise.dev/cpus: not a CPU range: '9-1'"),
    ],
)
def test_damaged_fields(path: tuple[str | int, ...], value: Any, problem: str) -> None:
    """The problem states the field and its value, and the rest of the object is read."""
    read = read_nrt(edited(path, value), KindInterner())
    assert [each for each in read.problems if each.startswith(problem)]
    if path not in (("zones",), ("attributes",)):
        assert read.state is not None
        assert 1 in read.state.kind.zones or 0 in read.state.kind.zones


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (names.TOPOLOGY_MANAGER_POLICY, "any", "none of none, best-effort, restricted, single-numa-node: 'any'"),
        (names.TOPOLOGY_MANAGER_MAX_NUMA_NODES, "-3", "not a count: '-3'"),
        (names.CPU_MANAGER_OPTIONS, "x", "not name=value: 'x'"),
        (names.RESERVED_CPUS, "x", "not a CPU range: 'x'"),
        (names.UNZONED_DEVICES, "x", "not name=value: 'x'"),
        (names.UNZONED_DEVICES, "r/n=1/1", "(r/n): not three quantities: '1/1'"),
        (names.SHARED_DEVICES, "r/d@0+1=5/5/5", "more than the 1 of zone 0 r/d"),
        (names.SHARED_DEVICES, "r/d@0+9=1/1/1", "not a resource and several zones: 'r/d@0+9'"),
        (names.SHARED_DEVICES, "r/d@0=1/1/1", "not a resource and several zones: 'r/d@0'"),
        (names.SHARED_DEVICES, "r/d@1=1/1/1", "not a resource and several zones: 'r/d@1'"),
        (names.SHARED_DEVICES, "r/d@x=1/1/1", "not zones: 'x'"),
        (names.SHARED_DEVICES, f"{'r' * 99}/d@x=1/1/1", f"({'r' * 80}): not zones: 'x'"),
        (names.ABSENT_ZONE_DEVICES, "r/d@0=1/1/1", "not a resource and absent zones: 'r/d@0'"),
        (names.ABSENT_ZONE_DEVICES, "r/d@x=1/1/1", "(r/d@x): not zones: 'x'"),
        (names.ABSENT_ZONE_DEVICES, "@-1=1/1/1", "not a resource and absent zones: '@-1'"),
        (names.EMPTY_ZONES, "x", "not a CPU range: 'x'"),
        (names.EMPTY_ZONES, "2000", "a zone above 1023: '2000'"),
        (names.MEMORY_ASSIGNED, "x", "not a CPU range: 'x'"),
        (names.MEMORY_ASSIGNED, "0-1,5", "no such zones: (5,)"),
        (names.MEMORY_ASSIGNED, "1-99", "no such zones: (2, 3, 4, 5, 6, 7, 8, 9)"),
    ],
)
def test_damaged_attributes_of_the_node(name: str, value: str, problem: str) -> None:
    """An unknown policy is read as the kubelet's default."""
    nrt = two_zones()
    set_attribute(nrt, name, value)
    read = read_nrt(nrt, KindInterner())
    assert [each for each in read.problems if each.startswith(name) and each.endswith(problem)]
    assert read.state is not None
    assert read.state.kind.cpus.cpus == TWO.cpus.online.bits


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (names.CPUS, "8-15", "CPUs of another zone: '8-15'"),
        (names.CORES, "0/1", "not the CPUs of the zone: '0/1'"),
        (names.CORES, "0-8", "not the CPUs of the zone: '0-8'"),
        (names.CORES, "0-7*3", "not cores: '0-7*3'"),
        (names.FREE_CPUS, "x", "not a CPU range: 'x'"),
        (names.MEMORY_GROUP, "0,x", "not zones: '0,x'"),
        (names.MEMORY_GROUP, "0,5", "no such zones: (5,)"),
    ],
)
def test_damaged_attributes_of_a_zone(name: str, value: str, problem: str) -> None:
    """The other zone is read completely."""
    nrt = two_zones()
    zone = nrt["zones"][1 if name == names.CPUS else 0]
    set_attribute(zone, name, value)
    if name == names.CPUS:
        nrt["zones"][0]["attributes"][0] = attribute(names.CPUS, "8-15")
    read = read_nrt(nrt, KindInterner())
    assert any(each.endswith(problem) and name in each for each in read.problems)
    assert read.state is not None
    assert read.state.free_cpus & 0xFF00 == 0xFF00


@pytest.mark.parametrize(
    ("owner", "attributes"),
    [
        (FIRST, {names.AMOUNTS: "memory=9E/9E/9E"}),
        ((), {names.EXCLUDED: "memory@0=9E"}),
        ((), {names.UNZONED_DEVICES: "memory-like=9E/9E/9E"}),
        ((), {names.UNZONED_DEVICES: "/".join([f"memory-like={1 << 58}", *[str(1 << 58)] * 2])}),
    ],
)
def test_amounts_that_no_node_has(owner: tuple[str | int, ...], attributes: dict[str, str]) -> None:
    """Their sums would exceed 64 bits, so the node counts as one without a report."""
    nrt = two_zones()
    for name, value in attributes.items():
        set_attribute(nrt["zones"][0] if owner else nrt, name, value)
    read = read_nrt(nrt, KindInterner())
    resource = "memory-like" if names.UNZONED_DEVICES in attributes else "memory"
    assert read.problems == (f"zones: more than any node has: {resource!r}",)
    assert read.state is None


@pytest.mark.parametrize(("count", "is_read"), [(128, True), (129, False), (500, False)])
def test_more_zones_than_any_kubelet_has(count: int, is_read: bool) -> None:
    """A report of too many zones is not read, regardless of its content."""
    nrt = two_zones()
    nrt["zones"] = [{"name": f"node-{number}", "type": "Node"} for number in range(count)]
    report = read_nrt(nrt, KindInterner())
    assert (report.state is not None) is is_read
    assert is_read or report.problems[0] == "zones: more than 128 NUMA nodes or 256 problems: none is read"


@pytest.mark.parametrize(("count", "is_read"), [(256, True), (257, False)])
def test_more_problems_than_are_listed(count: int, is_read: bool) -> None:
    """A report with 256 problems is read, and one with more is not."""
    nrt = two_zones()
    nrt["zones"] += [{"type": "Node"}] * count
    report = read_nrt(nrt, KindInterner())
    assert (report.state is not None) is is_read


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text("n0-", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("name", "value", "type")), inner),
    max_leaves=6,
)


def keys_of(value: Any) -> list[Any]:
    """Return the keys of an object or the indices of a list; empty for other values."""
    if isinstance(value, dict):
        return list(cast("Object", value))
    return list(range(len(cast("list[Any]", value)))) if isinstance(value, list) else []


@given(st.data())
def test_any_damage_is_read(data: st.DataObject) -> None:
    """For any value at any key, there is a report."""
    nrt = copy.deepcopy(BASE)
    for _ in range(data.draw(st.integers(1, 3))):
        owner: Any = nrt
        key = data.draw(st.sampled_from(keys_of(owner)))
        while keys_of(owner[key]) and data.draw(st.booleans()):
            owner = owner[key]
            key = data.draw(st.sampled_from(keys_of(owner)))
        owner[key] = data.draw(JSON)
    assert isinstance(read_nrt(nrt, KindInterner()), NodeReport)


BASE = two_zones()


@given(st.dictionaries(st.sampled_from(("metadata", "zones", "attributes", "topologyPolicies")), JSON))
def test_any_object_is_read(nrt: Object) -> None:
    assert isinstance(read_nrt(nrt, KindInterner()), NodeReport)
