"""The Device Manager: allocations, and hints compared with the kubelet's algorithm on single devices."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GPU, NIC, container, node, pod
from support.wide_hints import listed_sets
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.devicemanager.topology_hints import (
    device_min_affinity_size,
    generate_device_topology_hints,
    generate_wide_device_hints,
)
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.node import NO_ZONE, DeviceClass, NodeState
from zonewise_scheduler.admission.topologymanager.hints import Hints
from zonewise_scheduler.admission.verdict import DeviceAllocation

if TYPE_CHECKING:
    from collections.abc import Sequence


class Device(NamedTuple):
    """A single device of a device plugin."""

    zones: int
    healthy: bool
    held: bool
    reusable: bool
    """True if an ended init container of the same pod holds the device."""


def kubelet_hints(zones: range, devices: list[Device], count: int, *, narrowed: bool) -> tuple[set[int], set[int]]:
    """Run a transcription of GetTopologyHints and generateDeviceTopologyHints (topology_hints.go).

    Return the preferred and the other sets of zones.
    """
    near = [zone for zone in zones if any(device.zones >> zone & 1 for device in devices)] if narrowed else []
    width, masks = len(near or zones), list[int]()
    available = [device for device in devices if device.healthy and not device.held]
    reusable = [device for device in devices if device.reusable]
    if len(available) + len(reusable) < count:
        return set(), set()
    for size in range(1, len(near or zones) + 1):
        for members in combinations(near or zones, size):
            mask = sum(1 << zone for zone in members)
            if sum(1 for device in devices if device.zones & mask) >= count:
                width = min(width, size)
            if any(device.zones and not device.zones & mask for device in reusable):
                continue
            matching = [device for device in reusable if device.zones]
            matching += [device for device in available if device.zones & mask]
            if len(matching) >= count:
                masks.append(mask)
    return {mask for mask in masks if mask.bit_count() == width}, {mask for mask in masks if mask.bit_count() != width}


@st.composite
def any_devices(draw: st.DrawFn) -> tuple[range, list[Device]]:
    zones = range(draw(st.integers(1, 4)))
    near = st.integers(0, (1 << len(zones)) - 1) | st.sampled_from([NO_ZONE, 1 << 9])
    devices = draw(st.lists(st.builds(Device, near, st.booleans(), st.booleans(), st.booleans()), max_size=10))
    # devices left by an init container are healthy and held
    return zones, [device._replace(healthy=True, held=True) if device.reusable else device for device in devices]


def counted(zones: range, devices: list[Device], release: tuple[int, int]) -> tuple[NodeState, dict[int, int]]:
    """Return a node with the devices counted by class, and the reusable devices by index of the class."""
    near = sorted({device.zones for device in devices})
    state = node(len(zones), devices={GPU: dict.fromkeys(near, 1)}, release=release)
    classes: list[DeviceClass] = []
    free: list[int] = []
    reusable: dict[int, int] = {}
    for index, close in enumerate(near):
        members = [device for device in devices if device.zones == close]
        classes.append(DeviceClass(GPU, close, len(members), sum(device.healthy for device in members)))
        free.append(sum(device.healthy and not device.held for device in members))
        if number := sum(device.reusable for device in members):
            reusable[index] = number
    kind = state.kind.__class__(
        state.kind.policies, state.kind.zones, state.kind.distances, state.kind.cpus, devices=tuple(classes)
    )
    return NodeState(kind, 0, device_free=tuple(free)), reusable


@given(any_devices(), st.integers(0, 6), st.sampled_from([(1, 35), (1, 36), (1, 37)]))
def test_hints_match_the_kubelet(machine: tuple[range, list[Device]], count: int, release: tuple[int, int]) -> None:
    """The sets of zones match the kubelet's; since 1.36 they consist of zones that have devices."""
    check_hints(*machine, count, release)


@pytest.mark.parametrize("release", [(1, 35), (1, 36), (1, 37)])
@pytest.mark.parametrize(
    ("zones", "classes"),
    [
        (1, {1: (2, 1, 0, 0)}),
        (2, {0: (2, 0, 1, 0), 1: (1, 0, 0, 0)}),
        (2, {1: (4, 0, 0, 0), 2: (0, 1, 1, 2)}),
        (3, {1: (1, 0, 0, 0), 2: (1, 0, 0, 0), 4: (1, 0, 0, 0)}),
        (3, {1: (3, 0, 2, 0), 2: (2, 0, 0, 0)}),
        (3, {1: (1, 0, 1, 0), 2: (3, 0, 0, 0), 3: (2, 1, 0, 1)}),
        (3, {2: (1, 0, 0, 0), 7: (3, 0, 0, 0)}),
        (3, {7: (3, 0, 0, 0)}),
        (3, {5: (2, 0, 0, 0)}),
        (4, {2: (1, 0, 0, 0), 9: (2, 0, 1, 0)}),
        (3, {6: (1, 0, 0, 0), 7: (1, 0, 2, 0)}),
        (4, {3: (2, 0, 0, 0), 4: (2, 0, 0, 0), NO_ZONE: (1, 0, 0, 0)}),
        (4, {8: (2, 0, 0, 3), 1 << 9: (1, 0, 1, 0)}),
        (5, {0b01100: (3, 0, 0, 0), 0b10000: (1, 0, 0, 0), 0b00001: (1, 0, 0, 0)}),
        (10, {1: (1, 0, 0, 0), 1 << 9: (2, 0, 0, 0)}),
        (10, {1 << 8: (1, 0, 1, 0), 3 << 8: (2, 0, 0, 0)}),
    ],
)
def test_hints_of_machines(zones: int, classes: dict[int, tuple[int, int, int, int]], release: tuple[int, int]) -> None:
    """By zones of the devices: the numbers of free, held, reusable and unhealthy ones."""
    statuses = (True, False, False), (True, True, False), (True, True, True), (False, False, False)
    devices = [
        Device(near, *status)
        for near, counts in classes.items()
        for status, number in zip(statuses, counts, strict=True)
        for _ in range(number)
    ]
    for count in range(len(devices) + 2):
        check_hints(range(zones), devices, count, release)


def check_hints(zones: range, devices: list[Device], count: int, release: tuple[int, int]) -> None:
    if not any(device.zones for device in devices):
        return
    state, reusable = counted(zones, devices, release)
    preferred, not_preferred = kubelet_hints(zones, devices, count, narrowed=release >= (1, 36))
    hints = generate_device_topology_hints(state, GPU, count, reusable, include_not_preferred=True)
    assert (set(hints.preferred), set(hints.not_preferred)) == (preferred, not_preferred)
    assert listed_sets(generate_wide_device_hints(state, GPU, count, reusable)) == (preferred, not_preferred)
    assert generate_device_topology_hints(state, GPU, count, reusable, include_not_preferred=False) == Hints(
        hints.preferred
    )


def test_a_device_near_two_zones_counts_once() -> None:
    """All devices are near two zones. Together, the two zones of the first pair have three devices, not six."""
    for zones in (6, 12):
        kind = node(zones, devices={GPU: {0b11: 3, 0b1100: 1, 0b110000: 1}}, release=(1, 35)).kind
        assert [device_min_affinity_size(kind, GPU, count) for count in range(1, 6)] == [1, 1, 1, 2, 3]


@pytest.mark.parametrize("zones", [2, 3, 4])
def test_devices_near_all_zones_count_once(zones: int) -> None:
    """Each zone has three devices, and all zones together have no more."""
    kind = node(zones, devices={GPU: {(1 << zones) - 1: 3}}).kind
    assert [device_min_affinity_size(kind, GPU, count) for count in (1, 3, 4, 6)] == [1, 1, zones, zones]


@pytest.mark.parametrize("zones", [5, 20])
def test_devices_near_one_existing_zone_count_in_that_zone(zones: int) -> None:
    """The number of zones does not matter, and zones that the node lacks are ignored."""
    kind = node(zones, devices={GPU: {0b1: 1, 0b10 | 1 << 40: 2, 0b10000: 4}}, release=(1, 35)).kind
    assert [device_min_affinity_size(kind, GPU, count) for count in range(9)] == [1] * 5 + [2, 2, 3, zones]


def test_too_many_zones_for_devices_near_several_zones() -> None:
    """There are too many sets of zones to try, even though one zone would suffice."""
    kind = node(17, devices={GPU: {0b11: 3}}, release=(1, 35)).kind
    with pytest.raises(AdmissionError, match="too many zones"):
        device_min_affinity_size(kind, GPU, 1)


@pytest.mark.parametrize("resource", ["amd.com/gpu", GPU, "rdma/shared"])
def test_reusable_devices_of_other_resources_restrict_no_hints(resource: str) -> None:
    """Neither do reusable devices without a zone, nor classes of which no reusable device is left."""
    state = node(3, devices={resource: {0: 1, 1: 1, 2: 2, 4: 2}, "intel.com/qat": {1: 1}, "s/dpu": {1: 1}})
    indices = {device[:2]: index for index, device in enumerate(state.kind.devices)}
    reusable = {
        indices["intel.com/qat", 1]: 1,
        indices["s/dpu", 1]: 1,
        indices[resource, 1]: 0,
        indices[resource, 0]: 1,
    }
    copied = "".join([*resource])
    hints = generate_device_topology_hints(state, copied, 2, reusable, include_not_preferred=False)
    assert set(hints.preferred) == {2, 4}
    assert listed_sets(generate_wide_device_hints(state, copied, 2, reusable))[0] == {2, 4}
    reusable[indices[resource, 2]] = 1
    assert set(generate_device_topology_hints(state, copied, 2, reusable, include_not_preferred=False).preferred) == {2}
    assert listed_sets(generate_wide_device_hints(state, copied, 2, reusable))[0] == {2}


def test_reusable_devices_add_to_the_free_ones() -> None:
    """One device is free, and an init container left another: together they suffice."""
    state = node(2, devices={GPU: {1: 2}})._replace(device_free=(1,))
    assert listed_sets(generate_wide_device_hints(state, GPU, 2, {0: 1})) == ({1}, set())


def test_an_unhealthy_device_counts_for_the_width() -> None:
    """If both devices were healthy, one zone would suffice. So the pairs of zones that suffice are not preferred."""
    state = node(3, devices={GPU: {1: 2, 2: 1, 4: 1}}, topology="restricted")
    kind = state.kind
    ill = (DeviceClass(GPU, 1, 2, 0), *kind.devices[1:])
    sick = kind.__class__(kind.policies, kind.zones, kind.distances, kind.cpus, devices=ill)
    verdict = admit(
        state._replace(kind=sick, device_free=(0, 1, 1)), pod(container(devices={GPU: 2}), qos="BestEffort")
    )
    assert verdict.reason == "TopologyAffinityError"


def test_a_device_near_several_zones_serves_each() -> None:
    """The device counts in the zone of the other device."""
    state = node(2, devices={GPU: {3: 1}, NIC: {2: 1}}, topology="single-numa-node")
    verdict = admit(state, pod(container(devices={GPU: 1, NIC: 1}), qos="BestEffort"))
    assert [allocation[:3] for allocation in verdict.assignments[0].devices] == [(GPU, 3, 1), (NIC, 2, 1)]
    assert verdict.after is not None
    assert verdict.after.device_free == (0, 0)


def test_devices_without_zones_have_no_preference() -> None:
    """If no device of a resource has a zone, any device is suitable. If some have zones, only those count."""
    state = node(2, devices={NIC: {0: 4}, GPU: {0: 1, 1: 1, 2: 1}}, topology="restricted")
    assert admit(state, pod(container(devices={NIC: 4}), qos="BestEffort")).admitted
    assert admit(state, pod(container(devices={GPU: 2}), qos="BestEffort")).admitted
    assert admit(state, pod(container(devices={GPU: 3}), qos="BestEffort")).reason == "TopologyAffinityError"


def test_a_quantity_of_0_still_has_hints() -> None:
    """The GPU's zone is the only hint, although no GPU is allocated; before 1.36, any zone was a hint."""
    state = node(2, devices={GPU: {2: 1}, NIC: {1: 1}}, topology="single-numa-node")
    zero_gpus = pod(container(devices={GPU: 0, NIC: 1}), qos="BestEffort")
    assert admit(state, zero_gpus).reason == "TopologyAffinityError"
    old = node(2, devices={GPU: {2: 1}, NIC: {1: 1}}, topology="single-numa-node", release=(1, 35))
    assert admit(old, zero_gpus).admitted


def test_a_quantity_of_0_without_healthy_devices_is_rejected() -> None:
    """The kubelet checks for healthy devices before it checks the count."""
    state = node(2, devices={GPU: {0: 0}})
    verdict = admit(state, pod(container(devices={GPU: 0}), qos="BestEffort"))
    assert verdict.message == (
        f"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {GPU}, "
        "which is unexpected"
    )


def test_resources_without_a_plugin_are_skipped() -> None:
    """The kubelet ignores resources that it does not know, so the scheduler has to check them."""
    state = node(2, topology="single-numa-node")
    assert admit(state, pod(container(devices={GPU: 8}), qos="BestEffort")).admitted


def test_too_few_devices_fail_unexpectedly_without_alignment() -> None:
    state = node(2, devices={GPU: {1: 1, 2: 1}})
    verdict = admit(state, pod(container(devices={GPU: 3}), qos="BestEffort"))
    assert verdict.message == (
        f"Allocate failed due to requested number of devices unavailable for {GPU}. Requested: 3, Available: 2, "
        "which is unexpected"
    )
    assert (verdict.container, verdict.resource) == ("c0", GPU)


def test_devices_are_filtered_by_affinity() -> None:
    """With best-effort, a container may get more devices than its zone has: the zone's own first, then others."""
    state = node(3, devices={GPU: {0: 2, 1: 2, 2: 1, 4: 1}, NIC: {1: 1}}, topology="best-effort")
    verdict = admit(state, pod(container(devices={GPU: 5, NIC: 1}), qos="BestEffort"))
    assert {
        allocation.zones: allocation.number
        for allocation in verdict.assignments[0].devices
        if allocation.resource == GPU
    } == {
        0: 1,
        1: 2,
        2: 1,
        4: 1,
    }
    assert all(allocation.certain for allocation in verdict.assignments[0].devices)


@pytest.mark.parametrize(
    ("gpus", "zone", "picked"),
    [({1: 1, 2: 1, 4: 1}, 4, 4), ({1: 1, 2: 1, 4: 1}, 2, 2), ({3: 1, 1: 1}, 2, 3), ({6: 1, 2: 1, 1: 1}, 4, 6)],
)
def test_a_device_near_any_zone_of_the_affinity_comes_first(gpus: dict[int, int], zone: int, picked: int) -> None:
    """The NIC is near one zone only; the GPU is near that zone, possibly among others."""
    state = node(3, devices={GPU: gpus, NIC: {zone: 1}}, topology="single-numa-node")
    verdict = admit(state, pod(container(devices={GPU: 1, NIC: 1}), qos="BestEffort"))
    assert [each for each in verdict.assignments[0].devices if each.resource == GPU] == [
        DeviceAllocation(GPU, picked, 1)
    ]


@pytest.mark.parametrize("zones", [NO_ZONE, 1 << 9])
@pytest.mark.parametrize(
    ("topology", "reason"),
    [
        ("none", ""),
        ("best-effort", ""),
        ("restricted", "TopologyAffinityError"),
        ("single-numa-node", "TopologyAffinityError"),
    ],
)
@pytest.mark.parametrize("release", [(1, 31), (1, 36)])
def test_a_device_of_an_absent_zone(zones: int, topology: str, reason: str, release: tuple[int, int]) -> None:
    """If a plugin names NUMA node -1, the kubelet aligns its devices, but none of them is near any zone."""
    state = node(2, devices={GPU: {zones: 2}}, topology=topology, release=release)
    verdict = admit(state, pod(container(devices={GPU: 1}), qos="BestEffort"))
    assert verdict.reason == reason


def test_devices_of_absent_zones_come_after_those_of_other_zones() -> None:
    """Under best-effort, a device of zone 9 is one of another zone, and a device of zone -1 is one without a zone."""
    state = node(2, devices={GPU: {1: 1, 1 << 9: 1, NO_ZONE: 1}}, topology="best-effort")
    verdict = admit(state, pod(container(devices={GPU: 2}), qos="BestEffort"))
    assert {each.zones: each.number for each in verdict.assignments[0].devices} == {1: 1, 1 << 9: 1}
    verdict = admit(state, pod(container(devices={GPU: 3}), qos="BestEffort"))
    assert {each.zones: each.number for each in verdict.assignments[0].devices} == {0: 1, 1: 1, 1 << 9: 1}


# --- unhealthy devices of unknown zones


def with_unplaced(state: NodeState, **placed: int) -> NodeState:
    """Add unhealthy devices to the totals of classes, given by index."""
    devices = list(state.kind.devices)
    for index, number in placed.items():
        device = devices[int(index[1:])]
        devices[int(index[1:])] = device._replace(total=device.total + number)
    unplaced = tuple((int(index[1:]), number) for index, number in placed.items())
    return state._replace(kind=replace(state.kind, devices=tuple(devices), unplaced_devices=unplaced))


@pytest.mark.parametrize(
    ("count", "certain", "admitted"),
    [(3, True, True), (4, False, False), (5, False, True), (6, True, True)],
)
def test_unhealthy_devices_of_unknown_zones_make_a_verdict_uncertain(count: int, certain: bool, admitted: bool) -> None:
    """Two zones have 3 healthy devices each, and two are unhealthy: 4 may fit an idle zone, or 5 with both in it.

    In the likeliest zones, one in each, 4 devices prefer one zone, and no zone has 4 healthy ones.
    """
    state = node(2, devices={GPU: {1: 3, 2: 3}}, topology="restricted")
    assert admit(state, pod(container(devices={GPU: count}), qos="BestEffort")).uncertain == ()
    verdict = admit(with_unplaced(state, _0=1, _1=1), pod(container(devices={GPU: count}), qos="BestEffort"))
    doubt = f"nothing is known about the zones of unhealthy {GPU}, which count in the kubelet's hints"
    assert verdict.uncertain == (() if certain else (doubt,))
    assert verdict.admitted is admitted


@pytest.mark.parametrize("other", ["amd.com/gpu", "rdma/nic"])
def test_unhealthy_devices_make_requests_of_their_own_resource_uncertain(other: str) -> None:
    """The order of the names does not matter, and resource names are compared by value."""
    state = node(2, devices={GPU: {1: 3, 2: 3}, other: {1: 3, 2: 3}}, topology="restricted")
    first = next(index for index, device in enumerate(state.kind.devices) if device.resource == other)
    doubted = with_unplaced(state, **{f"_{first}": 1, f"_{first + 1}": 1})
    verdicts = [
        admit(doubted, pod(container(devices={"".join([*resource]): 4}), qos="BestEffort")) for resource in (GPU, other)
    ]
    assert [bool(verdict.uncertain) for verdict in verdicts] == [False, True]


# --- random picks


def test_a_random_pick_is_marked_as_uncertain() -> None:
    """Without alignment any device may be picked; the most likely counts are predicted, and marked as uncertain."""
    state = node(2, devices={GPU: {1: 5, 2: 3}})
    verdict = admit(state, pod(container(devices={GPU: 2}), qos="BestEffort"))
    assert [
        (allocation.zones, allocation.number, allocation.certain) for allocation in verdict.assignments[0].devices
    ] == [
        (1, 1, False),
        (2, 1, False),
    ]
    assert not verdict.uncertain


@pytest.mark.parametrize("count", [4, 8])
def test_an_allocation_without_alternatives_is_certain(count: int) -> None:
    """The container gets all devices of one zone, or all devices."""
    devices = {GPU: {1: 8}} if count == 4 else {GPU: {1: 5, 2: 3}}
    verdict = admit(node(2, devices=devices), pod(container(devices={GPU: count}), qos="BestEffort"))
    assert all(allocation.certain for allocation in verdict.assignments[0].devices)


@pytest.mark.parametrize(("first", "certain"), [(0, True), (1, False), (7, False), (8, True)])
def test_only_a_choice_is_uncertain(first: int, certain: bool) -> None:
    """Picking none or all of the devices is no choice; what later containers get is equally certain."""
    state = node(2, devices={GPU: {1: 5, 2: 3}})
    containers = container("c0", devices={GPU: first}), container("c1", devices={GPU: 8 - first})
    verdict = admit(state, pod(*containers, qos="BestEffort"))
    assert {each.certain for assignment in verdict.assignments for each in assignment.devices} == {certain}


def test_decisions_after_a_random_pick_are_uncertain() -> None:
    """If the pick for one container decides about the alignment of a later one, the verdict is uncertain."""
    state = node(2, devices={GPU: {1: 2, 2: 2}}, topology="best-effort")
    first = container("i0", devices={GPU: 3}, role="init")
    verdict = admit(state, pod(first, container("c0", devices={GPU: 2}), qos="BestEffort"))
    assert verdict.uncertain == (f"the kubelet picks {GPU} of container i0 at random from several zones",)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=4), st.integers(0, 10))
def test_a_random_pick_has_the_requested_count(pool: list[int], count: int) -> None:
    """The picked devices were free, and their number is the requested one."""
    counts = {1 << zone: number for zone, number in enumerate(pool)}
    state = node(len(pool), devices={GPU: counts})
    verdict = admit(state, pod(container(devices={GPU: count}), qos="BestEffort"))
    assert verdict.admitted is (count <= sum(pool) and any(pool))
    if verdict.after is not None:
        assert sum(state.device_free) - sum(verdict.after.device_free) == count
        assert all(0 <= left <= free for free, left in zip(state.device_free, verdict.after.device_free, strict=True))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=4), st.data())
def test_a_random_pick_has_the_likeliest_counts(pool: list[int], data: st.DataObject) -> None:
    """No other counts with the same sum can be picked in more ways, by the product of the binomial coefficients."""
    count = data.draw(st.integers(0, sum(pool)))
    state = node(len(pool), devices={GPU: {1 << zone: number for zone, number in enumerate(pool)}})
    verdict = admit(state, pod(container(devices={GPU: count}), qos="BestEffort"))
    if verdict.after is None:  # no healthy device
        return
    picked = [free - left for free, left in zip(state.device_free, verdict.after.device_free, strict=True)]
    choices = (each for each in product(*(range(number + 1) for number in pool)) if sum(each) == count)
    assert ways(pool, picked) == max(ways(pool, choice) for choice in choices)


@pytest.mark.parametrize(
    ("pool", "count", "picked"),
    [((4, 2), 2, (1, 1)), ((6, 3), 2, (1, 1)), ((6, 1), 4, (3, 1)), ((6, 2), 3, (2, 1)), ((7, 1), 5, (4, 1))],
)
def test_the_likeliest_counts(pool: tuple[int, int], count: int, picked: tuple[int, int]) -> None:
    """Of 4 and 2 devices, one of each can be picked in 8 ways, and two of the four in 6 ways."""
    state = node(2, devices={GPU: {1: pool[0], 2: pool[1]}})
    verdict = admit(state, pod(container(devices={GPU: count}), qos="BestEffort"))
    assert tuple(each.number for each in verdict.assignments[0].devices) == picked


def ways(pool: Sequence[int], picked: Sequence[int]) -> int:
    return prod(comb(number, each) for number, each in zip(pool, picked, strict=True))


# --- init containers


def test_an_app_reuses_the_devices_of_its_init_container() -> None:
    """Reusable devices are allocated first, and unused ones remain with the pod."""
    state = node(2, devices={GPU: {1: 4}}, topology="restricted")
    verdict = admit(
        state,
        pod(
            container("i0", devices={GPU: 3}, role="init"),
            container("c0", devices={GPU: 2}),
            container("c1", devices={GPU: 2}),
            qos="BestEffort",
        ),
    )
    assert verdict.after is not None
    assert verdict.after.device_free == (0,)
    assert [sum(allocation.number for allocation in assignment.devices) for assignment in verdict.assignments] == [
        3,
        2,
        2,
    ]


@pytest.mark.parametrize("topology", ["none", "restricted"])
@pytest.mark.parametrize(
    ("inits", "app"), [((1,), 3), ((3,), 1), ((4, 1), 4), ((4, 2), 3), ((3, 1), 2), ((1, 2), 5), ((2, 5, 1), 5)]
)
def test_a_pod_holds_the_most_devices_that_one_of_its_containers_needs(
    inits: tuple[int, ...], app: int, topology: str
) -> None:
    """Containers that run one after another get the devices they request, and the peak is enough for all of them."""
    most = max(*inits, app)
    containers = [container(f"i{index}", devices={GPU: count}, role="init") for index, count in enumerate(inits)]
    shape = pod(*containers, container("c0", devices={GPU: app}), qos="BestEffort")
    for total in (most, most + 2):
        verdict = admit(node(2, devices={GPU: {1: total}}, topology=topology), shape)
        assert verdict.after is not None
        assert verdict.after.device_free == (total - most,)
        assert [each.devices[0].number for each in verdict.assignments] == [*inits, app]


def test_a_sidecar_keeps_its_devices() -> None:
    state = node(2, devices={GPU: {1: 2}}, topology="restricted")
    sidecar, app = container("i0", devices={GPU: 2}, role="sidecar"), container("c0", devices={GPU: 1})
    assert admit(state, pod(sidecar, app, qos="BestEffort")).reason == "TopologyAffinityError"


def test_reusable_devices_restrict_hints() -> None:
    """Hints must contain all reusable devices, so a zone with more devices does not help (kubernetes#123816)."""
    state = node(2, devices={GPU: {1: 1, 2: 4}, NIC: {1: 1}}, topology="single-numa-node")
    init = container("i0", devices={GPU: 1, NIC: 1}, role="init")
    verdict = admit(state, pod(init, container("c0", devices={GPU: 2}), qos="BestEffort"))
    assert (verdict.reason, verdict.container) == ("TopologyAffinityError", "c0")
