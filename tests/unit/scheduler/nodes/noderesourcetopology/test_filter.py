"""What the plugin lets through, and what it ought not to."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nrt_objects import ALLOCATABLE, DEVICE, container, guaranteed, nrt, pod, sidecar, zone, zones_of
from zonewise_scheduler.nodes.noderesourcetopology import FilterStatus, filter_node

PASSES = FilterStatus("passes")
TWO_OF_8 = [zone(number, {"cpu": 8, "memory": "32Gi", DEVICE: 2}) for number in (0, 1)]

Json = dict[str, Any]


def answer(zones: list[Json], asked: Json, scope: str = "container") -> FilterStatus:
    return filter_node(nrt(zones, scope=scope), asked, ALLOCATABLE)


# --- what is looked at at all


def test_a_node_without_a_report() -> None:
    """A node of which nothing is known takes everything."""
    assert filter_node(None, pod(guaranteed(1000)), ALLOCATABLE) == PASSES


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "strict", ""])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_other_policies(policy: str, scope: str) -> None:
    """Only single-numa-node is enforced, so that restricted admits 100 CPUs on 16."""
    assert filter_node(nrt(TWO_OF_8, policy, scope), pod(guaranteed(100)), ALLOCATABLE) == PASSES


def test_best_effort_pods_without_devices() -> None:
    assert answer([], pod(container())) == PASSES


def test_best_effort_pods_with_devices() -> None:
    """Devices are compared in every QoS class."""
    assert answer(TWO_OF_8, pod(container(nic=2))) == PASSES
    assert answer(TWO_OF_8, pod(container(nic=3))) == FilterStatus("refuses", "cannot align container")


def test_zones_that_are_none() -> None:
    """Zones of other types or names, and above 64, are left out; node-64 itself is the end of the scheduler."""
    big = {"cpu": 64, "memory": "256Gi"}
    others = [zone(1, big) | {"type": "Socket"}, zone(1, big) | {"name": "socket-1"}, zone(65, big), zone(75, big)]
    assert answer([*TWO_OF_8, *others], pod(guaranteed(9))) == FilterStatus("refuses", "cannot align container")
    crash = answer([*TWO_OF_8, zone(64, big)], pod(guaranteed(1)))
    assert crash == FilterStatus("crashes", "runtime error: index out of range [64] with length 64")
    assert not crash.passes


def test_node_64_only_matters_where_zones_are_read() -> None:
    assert filter_node(nrt([zone(64, {})], "restricted"), pod(guaranteed(1)), ALLOCATABLE) == PASSES


# --- the policy


@pytest.mark.parametrize(
    ("deprecated", "message"),
    [
        (["SingleNUMANodePodLevel", "None"], "cannot align pod"),
        (["SingleNUMANodeContainerLevel"], "cannot align container"),
        (["SingleNUMANode"], ""),
        (["RestrictedPodLevel"], ""),
        (["BestEffortContainerLevel", "SingleNUMANodePodLevel"], ""),
        ([], ""),
    ],
)
def test_deprecated_policies(deprecated: list[str], message: str) -> None:
    """The first of topologyPolicies counts, where there are no attributes."""
    report = {"topologyPolicies": deprecated, "zones": TWO_OF_8}
    assert filter_node(report, pod(guaranteed(9)), ALLOCATABLE).message == message


def test_attributes_win_over_deprecated_policies_if_they_are_valid() -> None:
    report = nrt(TWO_OF_8, "unheard of", "pod") | {"topologyPolicies": ["SingleNUMANodeContainerLevel"]}
    assert filter_node(report, pod(guaranteed(9)), ALLOCATABLE).message == "cannot align pod"
    assert filter_node(nrt(TWO_OF_8, "none") | report, pod(guaranteed(8)), ALLOCATABLE) == PASSES


# --- resources


def test_what_no_node_has_is_refused_at_once() -> None:
    """Unless the amount is 0."""
    for amount, passes in ((0, True), (1, False)):
        asked = guaranteed(1)
        asked["resources"]["requests"]["example.com/none"] = str(amount)
        assert answer(TWO_OF_8, pod(asked)).passes is passes


def test_native_names_that_a_node_lists_but_no_scheduler_counts() -> None:
    """A made-up name without a domain never reaches the plugin from the node, and so is refused."""
    report = nrt([zone(0, {"cpu": 8, "memory": "32Gi", "gpu": 4})])
    assert not filter_node(report, pod(guaranteed(1, gpu=1)), ["gpu"]).passes
    assert filter_node(report, pod(guaranteed(1, gpu=0)), ["gpu"]).passes


def test_a_host_level_resource_is_ignored() -> None:
    """A device that no zone lists may come from anywhere; so may storage."""
    zones = [zone(0, {"cpu": 8, "memory": "32Gi"})]
    assert answer(zones, pod(guaranteed(1, nic=5, storage="1Gi"))) == PASSES


@pytest.mark.parametrize("name", ["memory", "hugepages"])
def test_a_native_resource_that_no_zone_lists_refuses(name: str) -> None:
    """Even to a Burstable pod, to which the kubelet gives it from anywhere (a wrong rejection)."""
    zones = [zone(0, {"cpu": 8})]
    burstable = container(cpu=1) | {
        "resources": {"requests": container(cpu=1, **{name: "2Mi"})["resources"]["requests"]}
    }
    assert answer(zones, pod(burstable)) == FilterStatus("refuses", "cannot align container")


def test_burstable_pods_are_held_to_devices_only() -> None:
    asked = {"resources": {"requests": {"cpu": "99", "memory": "1Ti", DEVICE: "2"}}}
    assert answer(TWO_OF_8, pod(asked)) == PASSES


def test_fractions_of_a_cpu_are_held_to_a_zone() -> None:
    """A Guaranteed container with 9500m runs on the shared CPUs of all zones (a wrong rejection)."""
    assert not answer(TWO_OF_8, pod(guaranteed("9500m"))).passes


def test_all_in_one_zone() -> None:
    """What is enough of each resource, but in different zones, is not enough."""
    zones = [zone(0, {"cpu": 8, "memory": "1Gi"}), zone(1, {"cpu": 1, "memory": "32Gi"})]
    assert not answer(zones, pod(guaranteed(8, memory="2Gi"))).passes


# --- containers


def test_containers_share_zones_in_their_order() -> None:
    """The lowest zone that has enough gives, as in the kubelet: [2, 8] on zones of 8 and 2 fails, [8, 2] does not."""
    zones = [zone(0, {"cpu": 8, "memory": "32Gi"}), zone(1, {"cpu": 2, "memory": "32Gi"})]
    assert answer(zones, pod(guaranteed(2), guaranteed(8))) == FilterStatus("refuses", "cannot align container")
    assert answer(zones, pod(guaranteed(8), guaranteed(2))) == PASSES


def test_init_containers_are_alone() -> None:
    """Each is compared with the whole of a zone and never taken off: those that end leave nothing."""
    asked = pod(guaranteed(8), guaranteed(8), init=(guaranteed(8), guaranteed(8)))
    assert answer(TWO_OF_8, asked) == PASSES
    refused = pod(guaranteed(1), init=(guaranteed(9),))
    assert answer(TWO_OF_8, refused) == FilterStatus("refuses", "cannot align init container")


def test_sidecars_are_forgotten() -> None:
    """A sidecar is compared, and never taken off: 24 CPUs pass on 16 (a wrong admission)."""
    asked = pod(guaranteed(8), guaranteed(8), init=(sidecar(guaranteed(8)),))
    assert answer(TWO_OF_8, asked) == PASSES
    assert answer(TWO_OF_8, pod(guaranteed(8), init=(sidecar(guaranteed(4)),)), "pod") == PASSES
    refused = pod(guaranteed(1), init=(sidecar(guaranteed(9)),))
    assert answer(TWO_OF_8, refused) == FilterStatus("refuses", "cannot align sidecar container")


def test_pod_level_resources_are_forgotten() -> None:
    own = {"cpu": "64", "memory": "1Gi"}
    asked = pod({"name": "c"}, resources={"requests": own, "limits": own})
    assert answer(TWO_OF_8, asked) == answer(TWO_OF_8, asked, "pod") == PASSES


def test_two_zones_of_one_name() -> None:
    """One of them has enough, both are taken from, and the accounts do not add up."""
    zones = [zone(0, {"cpu": 1, "memory": "1Gi"}), zone(0, {"cpu": 8, "memory": "32Gi"})]
    asked = pod(guaranteed(4), guaranteed(1))
    assert answer(zones, asked) == FilterStatus("refuses", "inconsistent resource accounting")


def test_nothing_of_what_is_overdrawn() -> None:
    """A request of 0 is fulfilled even where less than nothing is available."""
    zones = [zone(0, {"cpu": 8, "memory": "32Gi", DEVICE: -1})]
    assert answer(zones, pod(guaranteed(1, nic=0), guaranteed(1))) == PASSES
    assert not answer(zones, pod(guaranteed(1, nic=1))).passes


def test_overhead_counts_for_the_pod_as_a_whole() -> None:
    asked = pod(guaranteed(8), overhead={"cpu": "1"})
    assert answer(TWO_OF_8, asked) == PASSES
    assert answer(TWO_OF_8, asked, "pod") == FilterStatus("refuses", "cannot align pod")


# --- properties

counts = st.integers(0, 6)
containers = st.lists(st.tuples(counts, counts), min_size=1, max_size=3)


@given(zones_of(counts), containers)
def test_pod_scope_is_one_sum(zones: list[Json], asked: list[tuple[int, int]]) -> None:
    """A pod passes as one if some zone has the sums."""
    cpus, nics = (sum(column) for column in zip(*asked, strict=True))
    made = pod(*(guaranteed(cpu, nic=nic) for cpu, nic in asked)) | {"status": {"qosClass": "Guaranteed"}}
    available = [[int(one["available"]) for one in (zone["resources"][0], zone["resources"][2])] for zone in zones]
    enough = any(cpu >= cpus and nic >= nics for cpu, nic in available)
    assert answer(zones, made, "pod").passes == enough


@given(zones_of(counts), containers)
def test_container_scope_never_takes_what_is_not_there(zones: list[Json], asked: list[tuple[int, int]]) -> None:
    """Whatever passes can be dealt out to zones; the other way round it is greedy."""
    made = pod(*(guaranteed(cpu, nic=nic) for cpu, nic in asked)) | {"status": {"qosClass": "Guaranteed"}}
    if not answer(zones, made).passes:
        return
    available = [[int(one["available"]) for one in (zone["resources"][0], zone["resources"][2])] for zone in zones]
    assert any(
        all(
            sum(part[kind] for part, place in zip(asked, places, strict=True) if place == number) <= room[kind]
            for number, room in enumerate(available)
            for kind in (0, 1)
        )
        for places in itertools.product(range(len(zones)), repeat=len(asked))
    )


@given(zones_of(counts), containers, st.randoms(use_true_random=False))
def test_the_order_of_names_is_of_no_account(zones: list[Json], asked: list[tuple[int, int]], random: Any) -> None:
    """Resources and zones come in any order."""
    made = pod(*(guaranteed(cpu, nic=nic) for cpu, nic in asked))
    before = answer(zones, made)
    mixed = [one | {"resources": random.sample(one["resources"], len(one["resources"]))} for one in zones]
    random.shuffle(mixed)
    assert answer(mixed, made) == before
