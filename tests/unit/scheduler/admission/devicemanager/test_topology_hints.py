"""The Device Manager: its hints against the procedure on single devices, and which devices it gives."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GPU, NIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.devicemanager.topology_hints import generate_device_topology_hints
from zonewise_scheduler.admission.node import DeviceClass, NodeState
from zonewise_scheduler.admission.topologymanager.hints import Hints


class Device(NamedTuple):
    """One device, as a device plugin tells of it."""

    zones: int
    healthy: bool
    held: bool
    idle: bool
    """Of an ended init container of the same pod."""


def literal(zones: range, devices: list[Device], count: int, *, narrowed: bool) -> tuple[set[int], set[int]]:
    """GetTopologyHints and generateDeviceTopologyHints (topology_hints.go): preferred, and the others."""
    near = [zone for zone in zones if any(one.zones >> zone & 1 for one in devices)] if narrowed else []
    width, found = len(near or zones), list[int]()
    available = [one for one in devices if one.healthy and not one.held]
    reusable = [one for one in devices if one.idle]
    if len(available) + len(reusable) < count:
        return set(), set()
    for size in range(1, len(near or zones) + 1):
        for some in combinations(near or zones, size):
            mask = sum(1 << zone for zone in some)
            if sum(1 for one in devices if one.zones & mask) >= count:
                width = min(width, size)
            if any(one.zones and not one.zones & mask for one in reusable):
                continue
            matching = [one for one in reusable if one.zones] + [one for one in available if one.zones & mask]
            if len(matching) >= count:
                found.append(mask)
    return {one for one in found if one.bit_count() == width}, {one for one in found if one.bit_count() != width}


@st.composite
def any_devices(draw: st.DrawFn) -> tuple[range, list[Device]]:
    zones = range(draw(st.integers(1, 4)))
    near = st.integers(0, (1 << len(zones)) - 1)
    devices = draw(st.lists(st.builds(Device, near, st.booleans(), st.booleans(), st.booleans()), max_size=10))
    # what an init container has is healthy and held
    return zones, [one._replace(healthy=True, held=True) if one.idle else one for one in devices]


def counted(zones: range, devices: list[Device], release: tuple[int, int]) -> tuple[NodeState, dict[int, int]]:
    """The same as counts by class, and the idle ones by its place."""
    near = sorted({one.zones for one in devices})
    state = node(len(zones), devices={GPU: dict.fromkeys(near, 1)}, release=release)
    classes: list[DeviceClass] = []
    free: list[int] = []
    for some in ([one for one in devices if one.zones == zone_set] for zone_set in near):
        classes.append(DeviceClass(GPU, some[0].zones, len(some), sum(one.healthy for one in some)))
        free.append(sum(one.healthy and not one.held for one in some))
    kind = state.kind.__class__(
        state.kind.policies, state.kind.zones, state.kind.distances, state.kind.cpus, devices=tuple(classes)
    )
    idle = {
        place: some
        for place, zone_set in enumerate(near)
        if (some := sum(one.idle for one in devices if one.zones == zone_set))
    }
    return NodeState(kind, 0, device_free=tuple(free)), idle


@given(any_devices(), st.integers(0, 6), st.sampled_from([(1, 35), (1, 36)]))
def test_hints_are_those_of_the_procedure(
    machine: tuple[range, list[Device]], count: int, release: tuple[int, int]
) -> None:
    """All and only the sets of zones that the kubelet would list; since 1.36 out of the zones that have devices."""
    zones, devices = machine
    if not any(one.zones for one in devices):
        return
    state, idle = counted(zones, devices, release)
    preferred, others = literal(zones, devices, count, narrowed=release >= (1, 36))
    hints = generate_device_topology_hints(state, GPU, count, idle, include_not_preferred=True)
    assert (set(hints.preferred), set(hints.not_preferred)) == (preferred, others)
    assert generate_device_topology_hints(state, GPU, count, idle, include_not_preferred=False) == Hints(
        hints.preferred
    )


def test_an_unhealthy_device_counts_for_the_width() -> None:
    """One zone would do if its two devices were well, so that two zones, which do, are not preferred."""
    state = node(3, devices={GPU: {1: 2, 2: 1, 4: 1}}, topology="restricted")
    kind = state.kind
    ill = (DeviceClass(GPU, 1, 2, 0), *kind.devices[1:])
    sick = kind.__class__(kind.policies, kind.zones, kind.distances, kind.cpus, devices=ill)
    verdict = admit(
        state._replace(kind=sick, device_free=(0, 1, 1)), pod(container(devices={GPU: 2}), qos="BestEffort")
    )
    assert verdict.reason == "TopologyAffinityError"


def test_a_device_near_several_zones_serves_each() -> None:
    """It is in the zone of the CPUs, whichever that is."""
    state = node(2, devices={GPU: {3: 1}, NIC: {2: 1}}, topology="single-numa-node")
    verdict = admit(state, pod(container(devices={GPU: 1, NIC: 1}), qos="BestEffort"))
    assert [share[:3] for share in verdict.assignments[0].devices] == [(GPU, 3, 1), (NIC, 2, 1)]
    assert verdict.after is not None
    assert verdict.after.device_free == (0, 0)


def test_devices_without_zones_do_not_care() -> None:
    """A resource of which no device has a zone goes anywhere; one of which some have counts only those."""
    state = node(2, devices={NIC: {0: 4}, GPU: {0: 1, 1: 1, 2: 1}}, topology="restricted")
    assert admit(state, pod(container(devices={NIC: 4}), qos="BestEffort")).admitted
    assert admit(state, pod(container(devices={GPU: 2}), qos="BestEffort")).admitted
    assert admit(state, pod(container(devices={GPU: 3}), qos="BestEffort")).reason == "TopologyAffinityError"


def test_a_quantity_of_0_still_chooses_zones() -> None:
    """The GPU's zone is the only one, though none is given; before 1.36 any zone was."""
    state = node(2, devices={GPU: {2: 1}, NIC: {1: 1}}, topology="single-numa-node")
    asked = pod(container(devices={GPU: 0, NIC: 1}), qos="BestEffort")
    assert admit(state, asked).reason == "TopologyAffinityError"
    old = node(2, devices={GPU: {2: 1}, NIC: {1: 1}}, topology="single-numa-node", release=(1, 35))
    assert admit(old, asked).admitted


def test_a_quantity_of_0_of_nothing_is_refused() -> None:
    """The kubelet looks for healthy devices before it looks for how many."""
    state = node(2, devices={GPU: {0: 0}})
    verdict = admit(state, pod(container(devices={GPU: 0}), qos="BestEffort"))
    assert verdict.message == (
        f"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {GPU}, "
        "which is unexpected"
    )


def test_what_no_plugin_offers_is_passed_over() -> None:
    """The kubelet ignores resources that it has never heard of; that is for the scheduler to see."""
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


def test_near_devices_first_then_far_ones_then_those_of_nowhere() -> None:
    """With best-effort a container gets more than its zone has: all of there, then of the next."""
    state = node(3, devices={GPU: {0: 2, 1: 2, 2: 1, 4: 1}, NIC: {1: 1}}, topology="best-effort")
    verdict = admit(state, pod(container(devices={GPU: 5, NIC: 1}), qos="BestEffort"))
    assert {share.zones: share.number for share in verdict.assignments[0].devices if share.resource == GPU} == {
        0: 1,
        1: 2,
        2: 1,
        4: 1,
    }
    assert all(share.certain for share in verdict.assignments[0].devices)


# --- picks at random


def test_a_pick_between_zones_is_said_to_be_one() -> None:
    """Without alignment any device may be taken; the likeliest counts are foretold, and not as certain."""
    state = node(2, devices={GPU: {1: 5, 2: 3}})
    verdict = admit(state, pod(container(devices={GPU: 2}), qos="BestEffort"))
    assert [(share.zones, share.number, share.certain) for share in verdict.assignments[0].devices] == [
        (1, 1, False),
        (2, 1, False),
    ]
    assert not verdict.uncertain


@pytest.mark.parametrize("count", [4, 8])
def test_no_choice_is_certain(count: int) -> None:
    """All of one zone, or all there are."""
    devices = {GPU: {1: 8}} if count == 4 else {GPU: {1: 5, 2: 3}}
    verdict = admit(node(2, devices=devices), pod(container(devices={GPU: count}), qos="BestEffort"))
    assert all(share.certain for share in verdict.assignments[0].devices)


def test_what_follows_from_a_pick_is_in_doubt() -> None:
    """Where a later container is aligned by what an earlier one happened to get, the verdict says so."""
    state = node(2, devices={GPU: {1: 2, 2: 2}}, topology="best-effort")
    first = container("i0", devices={GPU: 3}, role="init")
    verdict = admit(state, pod(first, container("c0", devices={GPU: 2}), qos="BestEffort"))
    assert verdict.uncertain == (f"the kubelet picks {GPU} of container i0 at random from several zones",)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=4), st.integers(0, 10))
def test_a_pick_takes_as_many_as_were_asked_for(heap: list[int], count: int) -> None:
    """Whatever is drawn, it is there, and together it is the request."""
    places = {1 << zone: some for zone, some in enumerate(heap)}
    state = node(len(heap), devices={GPU: places})
    verdict = admit(state, pod(container(devices={GPU: count}), qos="BestEffort"))
    assert verdict.admitted is (count <= sum(heap) and any(heap))
    if verdict.after is not None:
        given_away = [free - left for free, left in zip(state.device_free, verdict.after.device_free, strict=True)]
        assert sum(given_away) == count
        assert all(some >= 0 for some in verdict.after.device_free)


# --- init containers


def test_an_app_takes_over_the_devices_of_its_init_container() -> None:
    """They are used first, and what is not used stays with the pod."""
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
    assert [sum(share.number for share in one.devices) for one in verdict.assignments] == [3, 2, 2]


def test_a_sidecar_keeps_its_devices() -> None:
    state = node(2, devices={GPU: {1: 2}}, topology="restricted")
    sidecar, app = container("i0", devices={GPU: 2}, role="sidecar"), container("c0", devices={GPU: 1})
    assert admit(state, pod(sidecar, app, qos="BestEffort")).reason == "TopologyAffinityError"


def test_an_init_container_ties_the_pod_to_its_zone() -> None:
    """Hints must hold all that can be taken over, so that a zone with more is no use (kubernetes#123816)."""
    state = node(2, devices={GPU: {1: 1, 2: 4}, NIC: {1: 1}}, topology="single-numa-node")
    init = container("i0", devices={GPU: 1, NIC: 1}, role="init")
    verdict = admit(state, pod(init, container("c0", devices={GPU: 2}), qos="BestEffort"))
    assert (verdict.reason, verdict.container) == ("TopologyAffinityError", "c0")
