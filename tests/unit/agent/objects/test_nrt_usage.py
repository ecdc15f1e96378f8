"""The NodeResourceTopology object with usage: complete, canonical, small, and little changed by a pod."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.crd import NODE_RESOURCE_TOPOLOGY, refusals
from support.kubelet_reports import CONFIG, GIB, NodeHistory, make_allocatable, make_node, node_histories
from support.machines import ALL, gpu_server, grace_blackwell, tiered_memory
from support.snapshots import ABSENT, scan_of, snapshots
from zonewise.kubelet.types import (
    Allocatable,
    ClaimedDevice,
    ContainerDevices,
    ContainerResources,
    KubeletConfig,
    KubeletReport,
    MemoryBlock,
    PodResources,
)
from zonewise.machine.model.machine import Machine
from zonewise.objects.nrt import NrtOptions, machine_to_nrt
from zonewise.publish.json_patch import json_patch
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise.usage.types import Usage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import read_pairs

if TYPE_CHECKING:
    from random import Random

Object = dict[str, Any]
TWO = make_node((0, 1))
POD = PodResources(
    "ns",
    "p",
    (
        ContainerResources(
            "c",
            CpuSet((1, 2)),
            (ContainerDevices("r/d", ("a",), (0,)), ContainerDevices("r/n", ("x",))),
            (MemoryBlock("memory", 20 * GIB, (0, 1)),),
            (ClaimedDevice("gpu.example.com", "n", "0", "ns/c"),),
        ),
    ),
)
DEVICES = (ContainerDevices("r/d", ("a", "b"), (0,)), ContainerDevices("r/n", ("x", "y")))


def compute_usage(machine: Machine, *pods: PodResources, devices: tuple[ContainerDevices, ...] = DEVICES) -> Usage:
    usage = node_usage(machine, KubeletReport(pods, make_allocatable(machine, devices), CONFIG))
    assert not isinstance(usage, KubeletNotReady)
    return usage


DEFAULT_OPTIONS = NrtOptions()


def make_nrt(
    *pods: PodResources, config: KubeletConfig | None = CONFIG, options: NrtOptions = DEFAULT_OPTIONS
) -> Object:
    return machine_to_nrt(TWO, "n", compute_usage(TWO, *pods), config, options=options)


def read_attributes(part: Object) -> dict[str, str]:
    return {attribute["name"]: attribute["value"] for attribute in part.get("attributes", [])}


def zones_by_name(obj: Object) -> dict[str, Object]:
    return {zone["name"]: zone for zone in obj["zones"]}


def resources_of(zone: Object) -> dict[str, tuple[int, int, int]]:
    return {
        resource["name"]: (int(resource["capacity"]), int(resource["allocatable"]), int(resource["available"]))
        for resource in zone["resources"]
    }


def test_resources() -> None:
    """Each Node zone has its CPUs, memory, huge pages and devices, in one order."""
    zone = zones_by_name(make_nrt(POD))["node-0"]
    assert resources_of(zone) == {
        "cpu": (8, 7, 5),
        "memory": (16 * GIB, 15 * GIB, 0),
        "hugepages-2Mi": (GIB, GIB, GIB),
        "r/d": (2, 2, 1),
    }
    assert [resource["name"] for resource in zone["resources"]] == ["cpu", "memory", "hugepages-2Mi", "r/d"]


def test_further_attributes_of_a_zone() -> None:
    """They are the free CPUs, and the zones from which memory is allocated as a unit."""
    zones = zones_by_name(make_nrt(POD))
    assert read_attributes(zones["node-0"])[names.FREE_CPUS] == "3-7"
    assert read_attributes(zones["node-1"])[names.MEMORY_GROUP] == "0,1"
    assert read_attributes(zones_by_name(make_nrt())["node-1"])[names.MEMORY_GROUP] == "1"


def test_attributes_of_the_node() -> None:
    """Usage is known, both fingerprints exist, the standard one follows the method, and unzoned amounts are listed."""
    usage = compute_usage(TWO, POD, PodResources("ns", "idle"))
    node_attributes = read_attributes(machine_to_nrt(TWO, "n", usage, CONFIG))
    assert node_attributes[names.USAGE] == names.USAGE_KNOWN
    assert node_attributes[names.PODS_FINGERPRINT] == usage.fingerprint_exclusive
    assert node_attributes[names.PODS_FINGERPRINT_METHOD] == "with-exclusive-resources"
    assert node_attributes[names.FINGERPRINTS["all"]] == usage.fingerprint_all != usage.fingerprint_exclusive
    assert read_pairs(node_attributes[names.UNZONED_DEVICES]) == {"r/n": "2/2/1"}
    assert read_pairs(node_attributes[names.CLAIMED_DEVICES]) == {"gpu.example.com": "1"}
    assert node_attributes[names.RESERVED_CPUS] == "0"
    assert node_attributes[names.THREADS_PER_CORE] == "1"


def test_attributes_for_predicting_admission() -> None:
    """Devices of several zones are listed separately, as are the zones with assigned memory, even if there are none."""
    devices = (
        ContainerDevices("r/d", ("a",), (0,)),
        ContainerDevices("r/d", ("b",), (0, 1)),
        ContainerDevices("r/e", ("c", "d"), (0, 1)),
    )
    node_attributes = read_attributes(machine_to_nrt(TWO, "n", compute_usage(TWO, POD, devices=devices), CONFIG))
    assert node_attributes[names.SHARED_DEVICES] == "r/d@0+1=1/1/1,r/e@0+1=2/2/2"
    assert node_attributes[names.MEMORY_ASSIGNED] == "0-1"
    idle = read_attributes(make_nrt())
    assert idle[names.MEMORY_ASSIGNED] == ""
    assert names.SHARED_DEVICES not in idle
    options = NrtOptions(exclude_resources=("r/d",))
    obj = machine_to_nrt(TWO, "n", compute_usage(TWO, devices=devices), CONFIG, options=options)
    assert read_attributes(obj)[names.SHARED_DEVICES] == "r/e@0+1=2/2/2"


def test_feature_gates() -> None:
    """Only gates that affect admission are listed, and only if the configuration is known."""
    config = CONFIG._replace(feature_gates=(("Other", True), ("PodLevelResourceManagers", True)))
    assert read_attributes(make_nrt(config=config))[names.FEATURE_GATES] == "PodLevelResourceManagers=true"
    assert names.FEATURE_GATES not in read_attributes(
        make_nrt(config=CONFIG._replace(feature_gates=(("Other", True),)))
    )


def test_the_other_method() -> None:
    """On request, the standard fingerprint is that of all pods."""
    usage = compute_usage(TWO, POD, PodResources("ns", "idle"))
    node_attributes = read_attributes(machine_to_nrt(TWO, "n", usage, options=NrtOptions(fingerprint="all")))
    assert (node_attributes[names.PODS_FINGERPRINT], node_attributes[names.PODS_FINGERPRINT_METHOD]) == (
        usage.fingerprint_all,
        "all",
    )


def test_policies() -> None:
    """The policies that affect admission are published with their defaults, and their options as pairs."""
    config = KubeletConfig(
        cpu_manager_policy="static",
        cpu_manager_options=(("full-pcpus-only", "true"), ("strict-cpu-reservation", "true")),
        topology_manager_options=(("max-allowable-numa-nodes", "16"),),
    )
    node_attributes = read_attributes(make_nrt(config=config))
    assert node_attributes["topologyManagerPolicy"] == "none"
    assert node_attributes["topologyManagerScope"] == "container"
    assert node_attributes["topologyManagerMaxNUMANodes"] == "16"
    assert node_attributes[names.CPU_MANAGER_POLICY] == "static"
    assert node_attributes[names.CPU_MANAGER_OPTIONS] == "full-pcpus-only=true,strict-cpu-reservation=true"
    assert node_attributes[names.MEMORY_MANAGER_POLICY] == "None"
    assert "topologyManagerMaxNUMANodes" in read_attributes(make_nrt())


def test_an_unknown_configuration() -> None:
    """Unknown policies are absent; readers assume the defaults."""
    assert not any(name.startswith("topologyManager") for name in read_attributes(make_nrt(config=None)))


def test_zones_that_are_not_nodes() -> None:
    """Allocatable memory without CPUs is an attribute, not a resource."""
    machine = tiered_memory()
    zone = next(zone for zone in machine.zones if zone.kind == "memory")
    allocatable = make_allocatable(machine)
    memory = (MemoryBlock("memory", 5 * GIB, (zone.id,)), MemoryBlock("memory", GIB, (0,)))
    pod = PodResources("n", "p", (ContainerResources("c", memory=(MemoryBlock("memory", GIB, (zone.id,)),)),))
    usage = node_usage(machine, KubeletReport((pod,), allocatable._replace(memory=memory), CONFIG))
    assert isinstance(usage, Usage)
    zone_object = zones_by_name(machine_to_nrt(machine, "n", usage, CONFIG))[f"memory-{zone.id}"]
    assert "resources" not in zone_object
    assert read_pairs(read_attributes(zone_object)[names.AMOUNTS]) == {"memory": f"{64 * GIB}/{5 * GIB}/{4 * GIB}"}


def test_gpus_and_nics() -> None:
    """The costs of a GPU are to the NICs of its zone, the nearest first; other zones have no costs to NICs."""
    zones = zones_by_name(machine_to_nrt(gpu_server(), "n"))
    costs = zones["gpu-0000-2a-00-0"]["costs"]
    assert costs[0] == {"name": "nic-0000-29-00-0", "value": 20}
    assert [cost["value"] for cost in costs] == sorted(cost["value"] for cost in costs)
    for cost in costs:
        assert zones[cost["name"]]["parent"] == zones["gpu-0000-2a-00-0"]["parent"]
    assert not any("costs" in zone for zone in zones.values() if zone["type"] in {"NIC", "Package", "L3"})


# --- exclusions


@pytest.mark.parametrize("patterns", [("cpu",), ("hugepages-*", "memory"), ("r/*",), ("*",)])
def test_excluded_resources(patterns: tuple[str, ...]) -> None:
    """They are not listed, and nothing else changes."""
    whole, reduced = make_nrt(POD), make_nrt(POD, options=NrtOptions(exclude_resources=patterns))
    assert list(refusals(reduced, NODE_RESOURCE_TOPOLOGY)) == []
    options = NrtOptions(exclude_resources=patterns)
    for zone, reduced_zone in zip(whole["zones"], reduced["zones"], strict=True):
        shown = [resource for resource in zone["resources"] if options.shows(resource["name"])]
        assert reduced_zone.get("resources", []) == shown
        assert {**zone, "resources": None} == {**reduced_zone, "resources": None}
    whole_attributes, reduced_attributes = read_attributes(whole), read_attributes(reduced)
    assert whole_attributes.pop(names.UNZONED_DEVICES) == "r/n=2/2/1"
    assert reduced_attributes.pop(names.UNZONED_DEVICES) == ("" if not options.shows("r/n") else "r/n=2/2/1")
    assert whole_attributes == reduced_attributes


# --- canonical, small, stable


@given(node_histories(), st.randoms())
def test_the_same_bytes(history: NodeHistory, random: Random) -> None:
    """For one state, any order of the kubelet's response gives the same bytes, which the API server accepts."""
    report = history.report()
    pods, devices = list(report.pods), list(report.allocatable.devices)
    random.shuffle(pods)
    random.shuffle(devices)
    shuffled = report._replace(pods=tuple(pods), allocatable=report.allocatable._replace(devices=tuple(devices)))
    objects: list[Object] = []
    for source in (report, shuffled):
        usage = node_usage(history.machine, source)
        assert not isinstance(usage, KubeletNotReady)
        objects.append(machine_to_nrt(history.machine, "n", usage, CONFIG))
    assert json.dumps(objects[0]) == json.dumps(objects[1])
    assert list(refusals(objects[0], NODE_RESOURCE_TOPOLOGY)) == []


@pytest.mark.parametrize("name", ALL)
def test_any_machine(name: str) -> None:
    """Every kind of machine has a valid object with its usage."""
    machine = ALL[name]()
    usage = node_usage(machine, KubeletReport((), Allocatable()))
    assert isinstance(usage, Usage)
    assert list(refusals(machine_to_nrt(machine, "n", usage, KubeletConfig()), NODE_RESOURCE_TOPOLOGY)) == []


def patch_bytes(before: Object, after: Object) -> int:
    return len(json.dumps(json_patch(before, after), separators=(",", ":")))


def test_a_pod_changes_little() -> None:
    """On a node with 2 zones, a pod with CPUs, memory and devices needs a patch of at most 1,200 bytes.

    The patch contains quantities, free CPUs and fingerprints.
    """
    single = CONFIG._replace(topology_manager_policy="single-numa-node")
    narrow = POD._replace(containers=(POD.containers[0]._replace(memory=(MemoryBlock("memory", GIB, (0,)),)),))
    further_pods = tuple(
        PodResources(
            "ns",
            f"q{number}",
            (ContainerResources("c", CpuSet((8 + number,)), memory=(MemoryBlock("memory", GIB, (1,)),)),),
        )
        for number in range(4)
    )
    for joins in (POD, narrow):
        before, after = make_nrt(*further_pods), make_nrt(*further_pods, joins)
        changed = {operation["path"].rsplit("/", 1)[1] for operation in json_patch(before, after)}
        assert changed == {"available", "value"}
        assert patch_bytes(before, after) <= 1200
    objects: list[Object] = []
    for pods in (further_pods, (*further_pods, narrow)):
        usage = node_usage(TWO, KubeletReport(pods, make_allocatable(TWO, DEVICES), single))
        assert isinstance(usage, Usage)
        objects.append(machine_to_nrt(TWO, "n", usage, single))
    assert patch_bytes(objects[0], objects[1]) <= 1200


def json_bytes(obj: Object) -> int:
    return len(json.dumps(obj, separators=(",", ":")))


def test_the_object_of_36_zones_is_small() -> None:
    """The zones that a GB200 reserves for MIG are omitted, so its object is at most 9 KB of JSON."""
    machine = grace_blackwell()
    assert len(machine.zones) == 34
    allocatable = Allocatable(CpuSet(range(144)), (), make_allocatable(TWO).memory)
    usage = node_usage(machine, KubeletReport((), allocatable, CONFIG))
    assert isinstance(usage, Usage)
    obj = machine_to_nrt(machine, "n", usage, CONFIG)
    assert len([zone for zone in obj["zones"] if zone["type"] == "DeviceMemory"]) == 4
    assert json_bytes(obj) <= 9 << 10


@pytest.mark.parametrize(("count", "kib"), [(2, 3), (8, 8), (36, 60), (64, 160)])
def test_the_object_of_a_node_that_uses_every_zone(count: int, kib: int) -> None:
    """With CPUs, memory and a device in each of 64 zones, it is at most 160 KB, 10% of etcd's limit."""
    machine = make_node(tuple(range(count)))
    devices = tuple(ContainerDevices("nvidia.com/gpu", (str(zone.id),), (zone.id,)) for zone in machine.zones)
    obj = machine_to_nrt(machine, "n", compute_usage(machine, devices=devices), CONFIG)
    assert json_bytes(obj) <= kib << 10


@pytest.mark.skipif(not snapshots(), reason=ABSENT)
@pytest.mark.parametrize(
    ("name", "kib"),
    [("synthetic/hgx_h100", 12), ("synthetic/gb200", 9), ("hwloc/256ppc-8n8s4t", 30), ("hwloc/256ia64-64n2s2c", 160)],
)
def test_the_objects_of_captured_machines_are_small(name: str, kib: int) -> None:
    """The largest stay far below etcd's limit; a machine with 8 GPUs and as many NICs has 12 KB."""
    machine = scan_of(name).machine
    usage = node_usage(machine, KubeletReport((), Allocatable()))
    assert isinstance(usage, Usage)
    assert json_bytes(machine_to_nrt(machine, "n", usage, KubeletConfig())) <= kib << 10


def test_placement() -> None:
    """The node has the encoded placement; each zone has its vector, except the zone with the most containers."""
    single = CONFIG._replace(topology_manager_policy="single-numa-node")
    pods = tuple(
        PodResources("ns", f"q{number}", (ContainerResources("c", CpuSet((6 + number,))),)) for number in range(5)
    )
    usage = node_usage(TWO, KubeletReport(pods, make_allocatable(TWO), single))
    assert isinstance(usage, Usage)
    placed = usage.placement
    assert placed is not None
    obj = machine_to_nrt(TWO, "n", usage, single)
    assert read_attributes(obj)[names.PLACEMENT_METADATA] == placed.metadata == "npv0v001::ve=leb89::cc=5::nn=2::bn=1"
    zones = zones_by_name(obj)
    assert read_attributes(zones["node-0"])[names.PLACEMENT_VECTOR] == placed.vectors[0]
    assert names.PLACEMENT_VECTOR not in read_attributes(zones["node-1"])


def test_a_machine_without_facts() -> None:
    """A machine without known facts and a kubelet without resources give a valid object without zones."""
    usage = node_usage(Machine(), KubeletReport((), Allocatable()))
    assert isinstance(usage, Usage)
    obj = machine_to_nrt(Machine(), "n", usage, None)
    assert obj["zones"] == []
    assert list(refusals(obj, NODE_RESOURCE_TOPOLOGY)) == []
