"""Memory and devices of our agent's object by zone, as the kubelet's managers count them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.agent_objects import TWO, damaged_state, published, read, report_of, set_attribute, state_of, two_zones
from support.kubelet_reports import GIB, make_node
from zonewise.kubelet.types import (
    ContainerDevices,
    ContainerResources,
    DeviceCheckpoint,
    MemoryBlock,
    PodResources,
    StateFiles,
)
from zonewise_common.nrt import names
from zonewise_scheduler.admission.node import NO_ZONE, DeviceClass
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt

ZONE_SETS = st.frozensets(st.integers(0, 3), max_size=3)


@given(st.lists(st.tuples(st.sampled_from("abc"), ZONE_SETS, st.booleans()), max_size=12))
def test_devices(drawn: list[tuple[str, frozenset[int], bool]]) -> None:
    """Each device counts in the class of its resource and zones, whether it is free or held."""
    machine = make_node((0, 1, 2, 3))
    devices = tuple(
        ContainerDevices(f"r/{kind}", (str(number),), tuple(sorted(zones)))
        for number, (kind, zones, _) in enumerate(drawn)
    )
    pods = tuple(
        PodResources("n", str(number), (ContainerResources("c", devices=(devices[number],)),))
        for number, (_, _, held) in enumerate(drawn)
        if held
    )
    counts: dict[tuple[str, int], list[int]] = {}
    for kind, zones, held in drawn:
        count = counts.setdefault((f"r/{kind}", sum(1 << zone for zone in zones)), [0, 0])
        count[0] += 1
        count[1] += not held
    state = read(machine, report_of(machine, *pods, devices=devices))
    expected = sorted((DeviceClass(*key, total, total), free) for key, (total, free) in counts.items())
    assert list(zip(state.kind.devices, state.device_free, strict=True)) == expected


def test_devices_of_absent_zones() -> None:
    """The kubelet uses the zones that a plugin names, even if the machine lacks them, for example -1."""
    devices = (
        ContainerDevices("r/d", ("a", "b"), (-1,)),
        ContainerDevices("r/d", ("c",), (7, 9)),
        ContainerDevices("r/d", ("d",), (1, 9)),
        ContainerDevices("r/d", ("e",), ()),
        ContainerDevices("r/e", ("f",), (-1,)),
    )
    held = PodResources("n", "p", (ContainerResources("c", devices=(ContainerDevices("r/d", ("b",), (-1,)),)),))
    report = report_of(TWO, held, devices=devices)
    state = damaged_state(published(TWO, report))
    assert dict(zip(((each.resource, each.zones) for each in state.kind.devices), state.device_free, strict=True)) == {
        ("r/d", 0): 1,
        ("r/d", 2): 1,
        ("r/d", 1 << 7 | 1 << 9): 1,
        ("r/d", NO_ZONE): 1,
        ("r/e", NO_ZONE): 1,
    }
    assert sum(device.total for device in state.kind.devices) == 6


def test_a_resource_without_healthy_devices() -> None:
    """The kubelet rejects pods that request such a resource, so its class is listed with a count of 0."""
    files = StateFiles(devices=DeviceCheckpoint((), {"r/gone": ("x",), "r/d": ("a",)}))
    report = report_of(TWO, devices=(ContainerDevices("r/d", ("a",), (1,)),))._replace(state=files)
    assert read(TWO, report).kind.devices == (DeviceClass("r/d", 2, 1, 1), DeviceClass("r/gone", 0, 0, 0))


def test_memory() -> None:
    """Memory is read by zone and type, with the groups and the zones with assigned memory."""
    block = MemoryBlock("memory", 20 * GIB, (0, 1))
    hugepages = MemoryBlock("hugepages-2Mi", 1 << 21, (2,))
    machine = make_node((0, 1, 2))
    state = read(
        machine,
        report_of(
            machine,
            PodResources(
                "n", "p", (ContainerResources("c", memory=(block,)), ContainerResources("d", memory=(hugepages,)))
            ),
        ),
    )
    assert state.kind.memory_types == ("hugepages-2Mi", "memory")
    assert state.kind.allocatable == ((GIB, 15 * GIB),) * 3
    assert state.memory_free == ((GIB, 0), (GIB, 10 * GIB), (GIB - (1 << 21), 15 * GIB))
    assert (state.memory_groups, state.memory_assigned) == ((3, 3, 4), 7)


@pytest.mark.parametrize(("listed", "types"), [(False, ("memory",)), (True, ("hugepages-2Mi", "memory"))])
def test_hugepages_that_a_zone_with_cpus_lacks(listed: bool, types: tuple[str, ...]) -> None:
    """The kubelet would panic because of a pod with such pages. A zone without memory may list 0 pages."""
    nrt = published(TWO, report_of(TWO))
    (zone,) = [zone for zone in nrt["zones"] if zone["name"] == "node-1"]
    nothing = dict.fromkeys(("capacity", "allocatable", "available"), "0")
    others = [resource for resource in zone["resources"] if not resource["name"].startswith("hugepages-")]
    zone["resources"] = [*others, {"name": "hugepages-2Mi", **nothing}] if listed else others
    assert state_of(read_nrt(nrt, KindInterner())).kind.memory_types == types


def test_resources_of_excluded_pods_are_healthy_and_allocatable() -> None:
    """The kubelet's managers count these resources, although the object does not offer them."""
    devices = (ContainerDevices("r/d", ("a", "b", "c"), (1,)), ContainerDevices("r/e", ("d",), (1,)))
    nrt = published(TWO, report_of(TWO, devices=devices))
    before = state_of(read_nrt(nrt, KindInterner())).kind
    set_attribute(nrt, names.EXCLUDED, f"r/d@1=3,memory@0={GIB}")
    after = state_of(read_nrt(nrt, KindInterner())).kind
    assert before.devices == (DeviceClass("r/d", 2, 3, 3), DeviceClass("r/e", 2, 1, 1))
    assert after.devices == (DeviceClass("r/d", 2, 6, 6), DeviceClass("r/e", 2, 1, 1))
    column = before.memory_types.index("memory")
    assert [row[column] for row in after.allocatable] == [
        before.allocatable[0][column] + GIB,
        before.allocatable[1][column],
    ]


@pytest.mark.parametrize("zone", range(4))
def test_excluded_pods_hold_memory_of_one_zone(zone: int) -> None:
    machine = make_node((0, 1, 2, 3))
    nrt = published(machine, report_of(machine))
    set_attribute(nrt, names.EXCLUDED, f"memory@{zone}={GIB}")
    state = state_of(read_nrt(nrt, KindInterner()))
    held = [
        tuple(total - left for total, left in zip(*rows, strict=True))
        for rows in zip(state.kind.allocatable, state.memory_free, strict=True)
    ]
    assert held == [(0, GIB if each == zone else 0) for each in range(4)]


def test_devices_of_excluded_pods_are_allocatable_to_the_kubelet() -> None:
    """They count as healthy, but not as free."""
    nrt = published(TWO, report_of(TWO, devices=(ContainerDevices("r/d", ("a", "b", "c"), (1,)),)))
    assert names.EXCLUDED not in {item["name"] for item in nrt["attributes"]}
    set_attribute(nrt, names.EXCLUDED, "r/d@1=1")
    state = state_of(read_nrt(nrt, KindInterner()))
    assert (state.kind.devices, state.device_free) == ((DeviceClass("r/d", 2, 4, 4),), (3,))


@pytest.mark.parametrize("text", ["x", "2000"])
def test_no_zone_is_assigned_by_a_damaged_list(text: str) -> None:
    nrt = two_zones()
    set_attribute(nrt, names.MEMORY_ASSIGNED, text)
    state = damaged_state(nrt)
    assert state.memory_assigned == 0


@pytest.mark.parametrize(("zone", "text", "groups"), [(0, "1", (3, 2)), (1, "0", (1, 3)), (1, "1", (1, 2))])
def test_a_zone_is_in_its_own_group(zone: int, text: str, groups: tuple[int, int]) -> None:
    nrt = two_zones()
    set_attribute(nrt["zones"][zone], names.MEMORY_GROUP, text)
    state = damaged_state(nrt)
    assert state.memory_groups == groups


@pytest.mark.parametrize("zone", [0, 1, 2, 3])
@pytest.mark.parametrize("text", ["0,x", "0,5", "5"])
def test_a_damaged_memory_group_is_unknown(text: str, zone: int) -> None:
    """Verdicts on pods with pinned memory are uncertain, and none raises an error."""
    machine = make_node((0, 1, 2, 3))
    nrt = published(machine, report_of(machine))
    set_attribute(nrt["zones"][zone], names.MEMORY_GROUP, text)
    state = damaged_state(nrt)
    assert state.kind.unknown == ("zones that allocate memory as a group",)
    assert state.memory_groups == (1, 2, 4, 8)


@pytest.mark.parametrize(("shared", "lacking"), [(1, ()), (2, (0, 1))])
def test_a_shared_device_does_not_count_in_its_zones_too(shared: int, lacking: tuple[int, ...]) -> None:
    """Shared devices are counted once, even if more are shared than a zone has."""
    nrt = two_zones()
    set_attribute(nrt, names.SHARED_DEVICES, f"r/d@0+1={shared}/{shared}/{shared}")
    report = read_nrt(nrt, KindInterner())
    assert report.state is not None
    assert report.state.kind.devices == (DeviceClass("r/d", 3, shared, shared),)
    assert report.problems == tuple(f"{names.SHARED_DEVICES}: more than the 1 of zone {zone} r/d" for zone in lacking)


@pytest.mark.parametrize(
    ("name", "zones", "bits"), [(names.SHARED_DEVICES, "0+1", 3), (names.ABSENT_ZONE_DEVICES, "9", 1 << 9)]
)
def test_devices_after_a_damaged_entry_are_read(name: str, zones: str, bits: int) -> None:
    nrt = two_zones()
    set_attribute(nrt, name, f"r/a@x=1/1/1,r/d@{zones}=1/1/1")
    assert DeviceClass("r/d", bits, 1, 1) in damaged_state(nrt).kind.devices
