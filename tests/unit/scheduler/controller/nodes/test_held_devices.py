"""Devices that ResourceClaims hold, and how the pods on a node count them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.controller.nodes.held_devices import HeldDevices
from zonewise_scheduler.controller.nodes.node_tracker import NodeTracker
from zonewise_scheduler.controller.nodes.placements import PlacedPodSets
from zonewise_scheduler.controller.nodes.types import TrackedPod
from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim, HeldDevice
from zonewise_scheduler.nodes.devices.provided_devices import DeviceResource

GPU, GPUS = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpus"
RESOURCES = (DeviceResource(GPU, "gpus"), DeviceResource(GPUS, "gpus"))
POOL = ("a.io", "n")


def pod(node: str, *, workload: str = "", active: bool = True, gpus: int = 0) -> TrackedPod:
    scalars = ((GPU, gpus),) if gpus else ()
    requests = Resource(1000, 0, 1, 0, scalars) if node else None
    return TrackedPod("ns", "p", node, active, requests, workload, "main")


def claim(*devices: str, name: str = "c", of: str = "p", extended: bool = False) -> AllocatedClaim:
    return AllocatedClaim("ns", name, of, extended, tuple(HeldDevice(POOL, device, GPUS) for device in devices))


def placement(*nodes: str, **requests: int) -> PlacedPodSets:
    return PlacedPodSets(
        {"main": frozenset(nodes)}, {"main": {GPUS if name == "gpus" else GPU: n for name, n in requests.items()}}
    )


@pytest.mark.parametrize(
    ("tracked", "placed", "of", "extended", "held", "counted"),
    [
        (None, None, "p", False, 0, {}),
        (pod("n"), None, "", False, 1, {}),
        (pod("n"), None, "p", False, 1, {}),
        (pod("n", gpus=1), None, "p", False, 1, {}),
        (pod("n", gpus=1), None, "p", True, 1, {GPU: 1}),
        (pod("n", gpus=1, active=False), None, "p", True, 0, {}),
        (pod("", workload="w"), None, "p", False, 0, {}),
        (pod("", workload="w"), placement("n", gpus=1), "p", False, 0, {}),
        (pod("", workload="w"), placement("n", gpus=1), "", False, 1, {}),
        (pod("n", workload="w"), placement("n", gpus=1), "p", False, 1, {GPUS: 1}),
        (pod("n", workload="w"), placement("n"), "p", False, 1, {}),
        (pod("n", workload="w"), placement("m", gpus=1), "p", False, 1, {}),
        (pod("n", workload="w", gpus=1), placement("m", gpu=1), "p", True, 1, {GPU: 1}),
        (pod("n", workload="w"), placement("n", gpus=1), "p", True, 1, {GPUS: 1}),
        (pod("n", workload="w", gpus=1), placement("n"), "p", True, 1, {GPU: 1}),
    ],
)
def test_the_pod_of_a_claim_determines_how_its_devices_count(
    tracked: TrackedPod | None,
    placed: PlacedPodSets | None,
    of: str,
    extended: bool,
    held: int,
    counted: dict[str, int],
) -> None:
    tracker = NodeTracker()
    devices = HeldDevices(tracker)
    tracker.observe_pod("ns", "p", tracked)
    tracker.set_placement("w", placed)
    devices.observe_claim("ns", "c", claim("d0", of=of, extended=extended))
    pools, nodes = devices.update(RESOURCES)
    assert devices.held == ({POOL: {"d0": 1}} if held else {})
    assert devices.counted("n") == counted
    assert pools == {POOL}
    assert nodes <= {"n"}
    devices.observe_claim("ns", "c", None)
    devices.update(RESOURCES)
    assert (devices.held, devices.counted("n")) == ({}, {})


def test_claims_without_devices_and_unchanged_claims_change_nothing() -> None:
    devices = HeldDevices(NodeTracker())
    devices.observe_claim("ns", "c", claim())
    devices.mark_pod("ns", "p")
    assert devices.update(RESOURCES) == (set(), set())
    devices.observe_claim("ns", "c", claim("d0", of=""))
    assert devices.update(RESOURCES) == ({POOL}, set())
    devices.observe_claim("ns", "c", claim("d0", of=""))
    devices.mark_pod("ns", "p")
    devices.mark_all()
    assert devices.update(RESOURCES) == (set(), set())


PODS = st.one_of(
    st.none(),
    st.builds(pod, st.sampled_from(["", "n", "m"]), workload=st.sampled_from(["", "w"]), gpus=st.integers(0, 2)),
)
CLAIMS = st.one_of(
    st.none(),
    st.builds(
        AllocatedClaim,
        st.just("ns"),
        st.just("c"),
        st.sampled_from(["", "p"]),
        st.booleans(),
        st.lists(st.builds(HeldDevice, st.just(POOL), st.sampled_from(["d0", "d1"]), st.just(GPUS)), unique=True).map(
            tuple
        ),
    ),
)
PLACEMENTS = st.one_of(
    st.none(), st.builds(placement, st.sampled_from("nm"), gpus=st.integers(0, 2), gpu=st.integers(0, 2))
)
CHANGES = st.one_of(
    st.tuples(st.just("pod"), PODS), st.tuples(st.sampled_from(["c", "d"]), CLAIMS), st.tuples(st.just("w"), PLACEMENTS)
)


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=15))
def test_the_effects_depend_only_on_the_last_state(changes: list[tuple[tuple[str, object], bool]]) -> None:
    """However changes are batched, and the returned pools and nodes contain each one that has changed."""
    tracker = NodeTracker()
    devices, last = HeldDevices(tracker), dict[str, object]()
    for (name, value), updates in changes:
        last[name] = value
        show(tracker, devices, name, value)
        before = snapshot(devices)
        if updates:
            pools, nodes = devices.update(RESOURCES)
            assert pools or before[0] == snapshot(devices)[0]
            assert all(node in nodes or before[1][node] == snapshot(devices)[1][node] for node in "nm")
    devices.update(RESOURCES)
    fresh_tracker = NodeTracker()
    fresh = HeldDevices(fresh_tracker)
    for name, value in last.items():
        show(fresh_tracker, fresh, name, value)
    fresh.update(RESOURCES)
    assert snapshot(devices) == snapshot(fresh)


def show(tracker: NodeTracker, devices: HeldDevices, name: str, value: object) -> None:
    if name == "pod":
        assert value is None or isinstance(value, TrackedPod)
        tracker.observe_pod("ns", "p", value)
        devices.mark_pod("ns", "p")
    elif name == "w":
        assert value is None or isinstance(value, PlacedPodSets)
        tracker.set_placement("w", value)
        devices.mark_pod("ns", "p")
    else:
        assert value is None or isinstance(value, AllocatedClaim)
        devices.observe_claim("ns", name, value)


def snapshot(devices: HeldDevices) -> tuple[dict[tuple[str, str], Counter[str]], dict[str, dict[str, int]]]:
    held = {pool: Counter(names) for pool, names in devices.held.items()}
    return held, {node: dict(devices.counted(node)) for node in "nm"}
