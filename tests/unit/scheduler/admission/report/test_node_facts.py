"""Reports combined with facts of the Node: the kubelet's release, and unhealthy devices, which only capacity counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GPU, NIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import NO_ZONE, NodeState
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_facts import NodeFacts, with_node_facts

NOW = (1, 36)


def adapted(state: NodeState, release: tuple[int, int] = NOW, **capacity: int) -> NodeState:
    """Return the state for a Node whose capacity has this many GPUs or NICs."""
    names = {"gpu": GPU, "nic": NIC}
    amounts = tuple(sorted((names[key], count) for key, count in capacity.items()))
    return with_node_facts(state, NodeFacts(release, amounts), KindInterner())


def totals(state: NodeState) -> dict[int, tuple[int, int]]:
    """Return the numbers of all and of healthy GPUs by zones."""
    return {device.zones: device[2:] for device in state.kind.devices if device.resource == GPU}


def test_the_release_takes_effect_at_once() -> None:
    state = node(2, release=(1, 33))
    assert adapted(state, (1, 36)).kind.policies == state.kind.policies._replace(release=(1, 36))
    assert adapted(state, (1, 33)) is state


@pytest.mark.parametrize(
    ("reported", "capacity", "expected"),
    [
        ({1: 4, 2: 4}, 8, {1: (4, 4), 2: (4, 4)}),
        ({1: 4, 2: 3}, 8, {1: (4, 4), 2: (4, 3)}),
        ({1: 3, 2: 3}, 8, {1: (4, 3), 2: (4, 3)}),
        ({1: 4}, 8, {1: (4, 4), 2: (4, 0)}),
        ({1: 4, 2: 4}, 9, {1: (5, 4), 2: (4, 4)}),
        ({0: 3}, 4, {0: (4, 3)}),
        ({NO_ZONE: 3}, 4, {NO_ZONE: (4, 3)}),
        ({1: 4, 2: 4}, 7, {1: (4, 4), 2: (4, 4)}),
        ({1: 4, 2: 4}, 0, {1: (4, 4), 2: (4, 4)}),
        ({0: 0}, 8, {0: (0, 0)}),
        ({1: 1}, 1025, {1: (513, 1), 2: (512, 0)}),
        ({1: 1}, 1026, {1: (1, 1)}),
    ],
)
def test_unhealthy_devices_count_near_the_likeliest_zones(
    reported: dict[int, int], capacity: int, expected: dict[int, tuple[int, int]]
) -> None:
    """They are placed in zones with fewer devices than others, then in zones with CPUs but without such devices."""
    state = node(2, devices={GPU: reported}, cpu="static")
    assert totals(adapted(state, gpu=capacity)) == expected


@pytest.mark.parametrize("release", [(1, 31), (1, 35), (1, 37)])
def test_any_other_release_is_used(release: tuple[int, int]) -> None:
    """The release may be older or newer."""
    state = node(2, release=(1, 36))
    assert adapted(state, release).kind.policies.release == release


@pytest.mark.parametrize(
    ("reported", "zones"), [({1: 1}, 2), ({2: 1}, 1), ({4: 1}, 1), ({1: 1, 2: 1}, 4), ({1: 1, 4: 1}, 2), ({6: 1}, 1)]
)
def test_the_first_zone_without_such_devices_comes_next(reported: dict[int, int], zones: int) -> None:
    state = node(3, devices={GPU: reported}, cpu="static")
    result = totals(adapted(state, gpu=sum(reported.values()) + 1))
    assert result == dict.fromkeys(reported, (1, 1)) | {zones: (1, 0)}


def test_missing_devices_are_counted_per_resource() -> None:
    state = node(2, devices={GPU: {1: 2}, NIC: {1: 2, 2: 1}}, cpu="static")
    for gpus, nics, placed in ((2, 4, [0, 0, 1]), (2000, 4, [0, 0, 1]), (3, 3, [0, 1, 0, 0]), (3, 4, [0, 1, 0, 1])):
        devices = adapted(state, gpu=gpus, nic=nics).kind.devices
        assert [device.total - device.healthy for device in devices] == placed


def test_zones_with_fewer_devices_come_before_zones_with_none() -> None:
    state = node(3, devices={GPU: {1: 4, 2: 3}}, cpu="static")
    assert totals(adapted(state, gpu=8)) == {1: (4, 4), 2: (4, 3)}
    assert totals(adapted(state, gpu=9)) == {1: (4, 4), 2: (4, 3), 4: (1, 0)}


@given(st.dictionaries(st.sampled_from([1, 2, 4, 3, 0]), st.integers(0, 4), max_size=4), st.integers(0, 20))
def test_every_missing_device_is_placed_once(reported: dict[int, int], capacity: int) -> None:
    """Free devices and other resources do not change. Facts apply to the reported state, not to earlier results."""
    state = node(3, devices={GPU: reported, NIC: {1: 2}}, cpu="static")
    result = adapted(state, gpu=capacity, nic=2)
    missing = max(0, capacity - sum(reported.values())) if any(reported.values()) else 0
    assert sum(total for total, _ in totals(result).values()) == sum(reported.values()) + missing
    assert sum(number for _, number in result.kind.unplaced_devices) == missing
    free = {device[:2]: count for device, count in zip(state.kind.devices, state.device_free, strict=True)}
    for device, count in zip(result.kind.devices, result.device_free, strict=True):
        assert free.get(device[:2], 0) == count
        assert device.healthy == (
            reported[device.zones] if device.resource == GPU and device.zones in reported else count
        )


def test_an_unhealthy_device_of_an_unknown_zone_makes_a_verdict_uncertain() -> None:
    """3 and 3 of 8 GPUs are healthy. In the likeliest zones, 4 GPUs prefer one zone, and no zone has 4 any more."""
    state = node(2, devices={GPU: {1: 3, 2: 3}}, topology="restricted")
    four = pod(container(devices={GPU: 4}), qos="BestEffort")
    assert admit(state, four).admitted
    verdict = admit(adapted(state, gpu=8), four)
    assert verdict.reason == "TopologyAffinityError"
    assert verdict.uncertain == (
        f"nothing is known about the zones of unhealthy {GPU}, which count in the kubelet's hints",
    )


def test_counts_of_other_agents_do_not_change() -> None:
    state = node(2, devices={GPU: {1: 3}})
    foreign = state._replace(kind=replace(state.kind, cpus=replace(state.kind.cpus, exact=False)))
    assert adapted(foreign, gpu=8) is foreign
