"""The plugin's filter: pods that it passes, and pods that it wrongly passes or rejects."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nrt_objects import ALLOCATABLE, DEVICE, container, guaranteed, nrt, pod, sidecar, zone, zone_lists
from zonewise_scheduler.nodes.noderesourcetopology import FilterStatus, filter_node

PASSES = FilterStatus("passes")
TWO_ZONES = [zone(number, {"cpu": 8, "memory": "32Gi", DEVICE: 2}) for number in (0, 1)]

Json = dict[str, Any]


def filter_zones(zones: list[Json], pod_object: Json, scope: str = "container") -> FilterStatus:
    return filter_node(nrt(zones, scope=scope), pod_object, ALLOCATABLE)


# --- pods and nodes that are not filtered


def test_node_without_report() -> None:
    """A node without a report passes every pod."""
    assert filter_node(None, pod(guaranteed(1000)), ALLOCATABLE) == PASSES


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "strict", ""])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_other_policies(policy: str, scope: str) -> None:
    """Only single-numa-node is enforced; under restricted, 100 CPUs pass on a node with 16."""
    assert filter_node(nrt(TWO_ZONES, policy, scope), pod(guaranteed(100)), ALLOCATABLE) == PASSES


def test_best_effort_pods_without_devices() -> None:
    assert filter_zones([], pod(container())) == PASSES


def test_best_effort_pods_with_devices() -> None:
    """Devices are checked in every QoS class."""
    assert filter_zones(TWO_ZONES, pod(container(nic=2))) == PASSES
    assert filter_zones(TWO_ZONES, pod(container(nic=3))) == FilterStatus("rejects", "cannot align container")


def test_skipped_zones() -> None:
    """Zones of other types or names, and zones above 64, are skipped. node-64 makes the scheduler panic."""
    big = {"cpu": 64, "memory": "256Gi"}
    skipped = [zone(1, big) | {"type": "Socket"}, zone(1, big) | {"name": "socket-1"}, zone(65, big), zone(75, big)]
    assert filter_zones([*TWO_ZONES, *skipped], pod(guaranteed(9))) == FilterStatus("rejects", "cannot align container")
    crash = filter_zones([*TWO_ZONES, zone(64, big)], pod(guaranteed(1)))
    assert crash == FilterStatus("crashes", "runtime error: index out of range [64] with length 64")
    assert not crash.passes


def test_node_64_under_other_policies() -> None:
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
    """Without attributes, the first of topologyPolicies is used."""
    report = {"topologyPolicies": deprecated, "zones": TWO_ZONES}
    assert filter_node(report, pod(guaranteed(9)), ALLOCATABLE).message == message


def test_valid_attributes_take_precedence() -> None:
    report = nrt(TWO_ZONES, "unknown", "pod") | {"topologyPolicies": ["SingleNUMANodeContainerLevel"]}
    assert filter_node(report, pod(guaranteed(9)), ALLOCATABLE).message == "cannot align pod"
    assert filter_node(nrt(TWO_ZONES, "none") | report, pod(guaranteed(8)), ALLOCATABLE) == PASSES


# --- resources


def test_unknown_resource() -> None:
    """A resource that the node lacks is rejected, unless the requested amount is 0."""
    for amount, passes in ((0, True), (1, False)):
        requesting = guaranteed(1)
        requesting["resources"]["requests"]["example.com/none"] = str(amount)
        assert filter_zones(TWO_ZONES, pod(requesting)).passes is passes


def test_name_without_domain() -> None:
    """The plugin never gets invented names without a domain from the node, so the pod is rejected."""
    report = nrt([zone(0, {"cpu": 8, "memory": "32Gi", "gpu": 4})])
    assert not filter_node(report, pod(guaranteed(1, gpu=1)), ["gpu"]).passes
    assert filter_node(report, pod(guaranteed(1, gpu=0)), ["gpu"]).passes


def test_host_level_resources() -> None:
    """A device that no zone lists may come from anywhere, as may storage."""
    zones = [zone(0, {"cpu": 8, "memory": "32Gi"})]
    assert filter_zones(zones, pod(guaranteed(1, nic=5, storage="1Gi"))) == PASSES


@pytest.mark.parametrize("name", ["memory", "hugepages"])
def test_native_resource_without_zone(name: str) -> None:
    """Even a Burstable pod is rejected, although the kubelet would admit it (a wrong rejection)."""
    zones = [zone(0, {"cpu": 8})]
    burstable = container(cpu=1) | {
        "resources": {"requests": container(cpu=1, **{name: "2Mi"})["resources"]["requests"]}
    }
    assert filter_zones(zones, pod(burstable)) == FilterStatus("rejects", "cannot align container")


def test_burstable_pods() -> None:
    requesting = {"resources": {"requests": {"cpu": "99", "memory": "1Ti", DEVICE: "2"}}}
    assert filter_zones(TWO_ZONES, pod(requesting)) == PASSES


def test_fractions_of_a_cpu() -> None:
    """A Guaranteed container with 9500m runs on the shared CPUs of all zones (a wrong rejection)."""
    assert not filter_zones(TWO_ZONES, pod(guaranteed("9500m"))).passes


def test_amounts_in_different_zones() -> None:
    """It does not suffice if each resource is available in a different zone."""
    zones = [zone(0, {"cpu": 8, "memory": "1Gi"}), zone(1, {"cpu": 1, "memory": "32Gi"})]
    assert not filter_zones(zones, pod(guaranteed(8, memory="2Gi"))).passes


# --- containers


def test_containers_in_order() -> None:
    """The lowest sufficient zone is used, as in the kubelet: 2 and 8 CPUs fail on zones of 8 and 2; 8 and 2 pass."""
    zones = [zone(0, {"cpu": 8, "memory": "32Gi"}), zone(1, {"cpu": 2, "memory": "32Gi"})]
    assert filter_zones(zones, pod(guaranteed(2), guaranteed(8))) == FilterStatus("rejects", "cannot align container")
    assert filter_zones(zones, pod(guaranteed(8), guaranteed(2))) == PASSES


def test_init_containers() -> None:
    """Each init container is compared with a whole zone, and never subtracted."""
    fitting = pod(guaranteed(8), guaranteed(8), init=(guaranteed(8), guaranteed(8)))
    assert filter_zones(TWO_ZONES, fitting) == PASSES
    rejected = pod(guaranteed(1), init=(guaranteed(9),))
    assert filter_zones(TWO_ZONES, rejected) == FilterStatus("rejects", "cannot align init container")


def test_sidecars() -> None:
    """A sidecar is compared but never subtracted: 24 CPUs pass on 16 (a wrong admission)."""
    fitting = pod(guaranteed(8), guaranteed(8), init=(sidecar(guaranteed(8)),))
    assert filter_zones(TWO_ZONES, fitting) == PASSES
    assert filter_zones(TWO_ZONES, pod(guaranteed(8), init=(sidecar(guaranteed(4)),)), "pod") == PASSES
    rejected = pod(guaranteed(1), init=(sidecar(guaranteed(9)),))
    assert filter_zones(TWO_ZONES, rejected) == FilterStatus("rejects", "cannot align sidecar container")


def test_pod_level_resources() -> None:
    pod_level = {"cpu": "64", "memory": "1Gi"}
    pod_object = pod({"name": "c"}, resources={"requests": pod_level, "limits": pod_level})
    assert filter_zones(TWO_ZONES, pod_object) == filter_zones(TWO_ZONES, pod_object, "pod") == PASSES


def test_duplicate_zone_names() -> None:
    """One of the two has enough, both are reduced, and the plugin reports inconsistent accounting."""
    zones = [zone(0, {"cpu": 1, "memory": "1Gi"}), zone(0, {"cpu": 8, "memory": "32Gi"})]
    pod_object = pod(guaranteed(4), guaranteed(1))
    assert filter_zones(zones, pod_object) == FilterStatus("rejects", "inconsistent resource accounting")


def test_overdrawn_resources() -> None:
    """A request of 0 fits even if the available amount is negative."""
    zones = [zone(0, {"cpu": 8, "memory": "32Gi", DEVICE: -1})]
    assert filter_zones(zones, pod(guaranteed(1, nic=0), guaranteed(1))) == PASSES
    assert not filter_zones(zones, pod(guaranteed(1, nic=1))).passes


def test_overhead() -> None:
    pod_object = pod(guaranteed(8), overhead={"cpu": "1"})
    assert filter_zones(TWO_ZONES, pod_object) == PASSES
    assert filter_zones(TWO_ZONES, pod_object, "pod") == FilterStatus("rejects", "cannot align pod")


# --- properties

counts = st.integers(0, 6)
containers = st.lists(st.tuples(counts, counts), min_size=1, max_size=3)


@given(zone_lists(counts), containers)
def test_pod_scope(zones: list[Json], requests: list[tuple[int, int]]) -> None:
    """A pod passes if a single zone has the sums of its requests."""
    cpus, nics = (sum(column) for column in zip(*requests, strict=True))
    pod_object = pod(*(guaranteed(cpu, nic=nic) for cpu, nic in requests)) | {"status": {"qosClass": "Guaranteed"}}
    available = [
        [int(resource["available"]) for resource in (zone["resources"][0], zone["resources"][2])] for zone in zones
    ]
    fits = any(cpu >= cpus and nic >= nics for cpu, nic in available)
    assert filter_zones(zones, pod_object, "pod").passes == fits


@given(zone_lists(counts), containers)
def test_container_scope(zones: list[Json], requests: list[tuple[int, int]]) -> None:
    """If a pod passes, its containers can be distributed over the zones; the reverse does not hold."""
    pod_object = pod(*(guaranteed(cpu, nic=nic) for cpu, nic in requests)) | {"status": {"qosClass": "Guaranteed"}}
    if not filter_zones(zones, pod_object).passes:
        return
    available = [
        [int(resource["available"]) for resource in (zone["resources"][0], zone["resources"][2])] for zone in zones
    ]
    assert any(
        all(
            sum(
                request[kind]
                for request, zone_index in zip(requests, zone_indices, strict=True)
                if zone_index == number
            )
            <= amounts[kind]
            for number, amounts in enumerate(available)
            for kind in (0, 1)
        )
        for zone_indices in itertools.product(range(len(zones)), repeat=len(requests))
    )


@given(zone_lists(counts), containers, st.randoms(use_true_random=False))
def test_order_of_resources_and_zones(zones: list[Json], requests: list[tuple[int, int]], random: Any) -> None:
    """Resources and zones may be listed in any order."""
    pod_object = pod(*(guaranteed(cpu, nic=nic) for cpu, nic in requests))
    before = filter_zones(zones, pod_object)
    shuffled = [zone | {"resources": random.sample(zone["resources"], len(zone["resources"]))} for zone in zones]
    random.shuffle(shuffled)
    assert filter_zones(shuffled, pod_object) == before
