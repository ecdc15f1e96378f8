"""The NodeResourceTopology object: valid, safe for every known consumer, and correct."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.crd import DNS_LABEL, NODE_RESOURCE_TOPOLOGY, refusals
from support.machines import (
    ALL,
    GIB,
    big_machine,
    gpu_server,
    grace_blackwell,
    hybrid,
    small_vm,
    tiered_memory,
)
from zonewise.machine.model.cpu import Package
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.problem import Problem
from zonewise.machine.model.zone import Zone
from zonewise.objects.nrt import machine_to_nrt
from zonewise.objects.yaml_text import render_yaml
from zonewise_common.k8s.cpuset import EMPTY, CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.zones import MAX_NODE_ZONES


def zone_objects(machine: Machine, kind: str | None = None) -> dict[str, dict[str, Any]]:
    zones = machine_to_nrt(machine, "node")["zones"]
    return {zone["name"]: zone for zone in zones if kind in (None, zone["type"])}


def read_attributes(zone: dict[str, Any]) -> dict[str, str]:
    return {attribute["name"]: attribute["value"] for attribute in zone.get("attributes", [])}


def resources_of(zone: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {resource["name"]: resource for resource in zone["resources"]}


def many_zones(count: int, kind: str = "cpu") -> Machine:
    zones = tuple(
        Zone(number, CpuSet((number,)) if kind == "cpu" else EMPTY, CpuSet((number,)), GIB, {}, {}, kind)
        for number in range(count)
    )
    distances = {str(number): 20 for number in range(count)}
    return Machine(zones=tuple(zone._replace(distances=distances) for zone in zones))


@pytest.mark.parametrize("name", ALL)
def test_an_api_server_accepts_it(name: str) -> None:
    """The object matches the structural schema of the CRD, without fields that would be pruned."""
    obj = machine_to_nrt(ALL[name](), "node-7.example.com")
    assert list(refusals(obj, NODE_RESOURCE_TOPOLOGY)) == []
    assert obj["metadata"] == {"name": "node-7.example.com"}


@pytest.mark.parametrize("name", ALL)
def test_names_are_unique_labels(name: str) -> None:
    """Each zone has a unique name, which is a DNS-1123 label, and its parent is a zone of the object."""
    zones = machine_to_nrt(ALL[name](), "node")["zones"]
    names = [zone["name"] for zone in zones]
    assert len(set(names)) == len(names)
    assert all(DNS_LABEL.fullmatch(one) for one in names)
    assert {zone["parent"] for zone in zones if "parent" in zone} <= set(names)


@pytest.mark.parametrize("name", ALL)
def test_parents_form_no_cycle(name: str) -> None:
    """The chain of parents ends."""
    zones = zone_objects(ALL[name]())
    for zone in zones.values():
        ancestors: list[str] = []
        while "parent" in zone:
            assert zone["name"] not in ancestors
            ancestors.append(zone["name"])
            zone = zones[zone["parent"]]


@pytest.mark.parametrize("name", ALL)
def test_only_nodes_have_resources(name: str) -> None:
    """Consumers that walk all zones find resources only in the zones to which the kubelet aligns."""
    for zone in zone_objects(ALL[name]()).values():
        assert ("resources" in zone) == (zone["type"] == "Node")


@pytest.mark.parametrize("name", ALL)
def test_only_names_of_nodes_in_the_costs_of_nodes(name: str) -> None:
    """scheduler-plugins takes each name in a Node zone's costs as another node's, and reads no other zone's costs."""
    zones = zone_objects(ALL[name]())
    nodes = {name for name, zone in zones.items() if zone["type"] == "Node"}
    for zone in zones.values():
        if zone["type"] != "GPU":
            assert {cost["name"] for cost in zone.get("costs", [])} <= nodes


@pytest.mark.parametrize("name", ALL)
def test_quantities_are_in_order(name: str) -> None:
    """Available is at most allocatable, which is at most capacity."""
    for zone in zone_objects(ALL[name](), "Node").values():
        for resource in zone["resources"]:
            assert 0 <= int(resource["available"]) <= int(resource["allocatable"]) <= int(resource["capacity"])


@pytest.mark.parametrize("name", ALL)
def test_the_same_bytes_for_the_same_machine(name: str) -> None:
    """Two equal machines give the same YAML, so a comparison needs no parser."""
    assert render_yaml(machine_to_nrt(ALL[name](), "n")) == render_yaml(machine_to_nrt(ALL[name](), "n"))


@pytest.mark.parametrize("name", ALL)
def test_yaml_survives_a_round_trip(name: str) -> None:
    """Strings that YAML would read as numbers, times or booleans remain strings."""
    obj = machine_to_nrt(ALL[name](), "node")
    assert yaml.safe_load(render_yaml(obj)) == obj


def test_usage_is_unknown() -> None:
    """Without a kubelet, the usage is unknown, and an attribute of the object shows this."""
    obj = machine_to_nrt(small_vm(), "node")
    assert {"name": "zonewise.dev/usage", "value": "unknown"} in obj["attributes"]


def test_problems_are_counted() -> None:
    """An object from a damaged source can be recognised."""
    obj = machine_to_nrt(small_vm()._replace(problems=(Problem("/sys/x", "is empty"),)), "node")
    assert {"name": "zonewise.dev/problems", "value": "1"} in obj["attributes"]


def test_resources_of_a_node() -> None:
    """CPUs are counted; memory and huge page pools are in bytes under the kubelet's names."""
    node = resources_of(zone_objects(tiered_memory())["node-0"])
    assert list(node) == ["cpu", "memory", "hugepages-2Mi", "hugepages-1Gi"]
    assert node["cpu"]["capacity"] == "16"
    assert node["hugepages-2Mi"]["capacity"] == str(2 * GIB)
    assert node["hugepages-1Gi"]["capacity"] == "0"
    assert node["memory"]["capacity"] == str(256 * GIB)


def test_pages_in_a_pool_are_not_memory_for_pods() -> None:
    """Pages in a huge page pool reduce the allocatable memory, but not its capacity."""
    assert resources_of(zone_objects(tiered_memory())["node-0"])["memory"]["allocatable"] == str(254 * GIB)


def test_pools_larger_than_memory_leave_nothing() -> None:
    """Contradictory files do not give a negative quantity."""
    zone = small_vm().zones[0]._replace(memory=GIB, hugepages={"1Gi": 4})
    assert resources_of(zone_objects(Machine(zones=(zone,)))["node-0"])["memory"]["available"] == "0"


def test_unknown_memory_is_not_a_resource() -> None:
    """A zone with unreadable memory lacks the resource, rather than having none of it."""
    zone = small_vm().zones[0]._replace(memory=None)
    assert list(resources_of(zone_objects(Machine(zones=(zone,)))["node-0"])) == ["cpu"]


def test_no_device_is_a_resource() -> None:
    """Only the device plugin decides how GPUs are offered."""
    names = {name for zone in zone_objects(gpu_server(), "Node").values() for name in resources_of(zone)}
    assert names == {"cpu", "memory"}


def test_distances() -> None:
    """The costs of a node are its distances to all nodes, including itself."""
    assert zone_objects(gpu_server())["node-1"]["costs"] == [
        {"name": "node-0", "value": 12},
        {"name": "node-1", "value": 10},
        {"name": "node-2", "value": 21},
        {"name": "node-3", "value": 21},
    ]


def test_unknown_distances_are_left_out() -> None:
    """A machine without distances has no costs, rather than equal ones."""
    assert "costs" not in zone_objects(big_machine()._replace(zones=(small_vm().zones[0],)))["node-0"]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_never_a_node_that_overflows_a_consumers_table(count: int) -> None:
    """Ids from 64 on are not nodes for consumers: they have another name and type, and no resources."""
    zones = zone_objects(many_zones(count))
    nodes = [zone for zone in zones.values() if zone["type"] == "Node"]
    assert len(zones) == count
    assert len(nodes) == min(count, MAX_NODE_ZONES)
    assert not any(zone["name"].startswith("node-") for zone in zones.values() if zone["type"] != "Node")
    assert all(int(node["name"].removeprefix("node-")) < MAX_NODE_ZONES for node in nodes)


@given(st.lists(st.integers(0, 5000), unique=True, max_size=20), st.sampled_from(["cpu", "memory", "device"]))
def test_any_ids(ids: list[int], kind: str) -> None:
    """Sparse and huge ids are retained, and only CPU zones below 64 are nodes."""
    zones = tuple(many_zones(1, kind).zones[0]._replace(id=number) for number in sorted(ids))
    zones_by_name = zone_objects(Machine(zones=zones))
    assert {zone["name"].rpartition("-")[2] for zone in zones_by_name.values()} == set(map(str, ids))
    for zone in zones_by_name.values():
        below = int(zone["name"].rpartition("-")[2]) < MAX_NODE_ZONES
        assert (zone["type"] == "Node") == (kind == "cpu" and below)


def test_memory_without_cpus() -> None:
    """HBM and CXL are zones of another type, with size, medium, distances, speeds and nearest CPUs."""
    zone = zone_objects(tiered_memory())["memory-2"]
    assert zone["type"] == "MemoryOnly"
    assert zone["costs"] == [{"name": "node-0", "value": 13}, {"name": "node-1", "value": 23}]
    assert read_attributes(zone) == {
        "zonewise.dev/initiators": "0",
        "zonewise.dev/local-cpus": "0-15",
        "zonewise.dev/medium": "HBM",
        "zonewise.dev/memory": str(64 * GIB),
        "zonewise.dev/read-bandwidth-mbps": "400000",
        "zonewise.dev/read-latency-ns": "30",
        "zonewise.dev/tier": "3",
    }


def test_gpu_memory_and_the_zones_reserved_for_it() -> None:
    """A coherent GPU's memory is a zone that names the GPU; empty zones reserved for MIG are not published."""
    zones = zone_objects(grace_blackwell(), "DeviceMemory")
    assert list(zones) == ["device-2", "device-10", "device-18", "device-26"]
    assert read_attributes(zones["device-10"])["zonewise.dev/device"] == "0009:01:00.0"


def test_packages_are_parents_of_nodes() -> None:
    """If a package has several zones, it is their parent."""
    zones = zone_objects(gpu_server())
    assert [zones[f"node-{number}"]["parent"] for number in range(4)] == ["package-0"] * 2 + ["package-1"] * 2
    assert read_attributes(zones["package-1"])["zonewise.dev/model"] == "Intel(R) Xeon(R) Platinum 8480C"


def test_a_node_of_several_packages() -> None:
    """In a guest with one zone and many sockets, the zone is the parent of the packages."""
    halves = (CpuSet((0, 2)), CpuSet((1, 3)))
    machine = small_vm()._replace(packages=tuple(Package(0, held) for held in halves))
    zones = zone_objects(machine)
    assert "parent" not in zones["node-0"]
    assert [zones[name]["parent"] for name in ("package-0", "package-1")] == ["node-0", "node-0"]


def test_l3_groups_that_split_a_zone() -> None:
    """Groups of cores below a zone are published with their CPUs; an L3 of a whole zone is omitted."""
    groups = zone_objects(big_machine(), "L3")
    assert len(groups) == 16
    assert groups["l3-3"]["parent"] == "node-1"
    assert read_attributes(groups["l3-3"])["zonewise.dev/cpus"] == "24-31,152-159"
    assert zone_objects(tiered_memory(), "L3") == {}


def test_l3_groups_without_ids_are_omitted() -> None:
    """The kubelet ignores caches whose directories have no file "id", as on many Arm machines."""
    machine = big_machine()
    nameless = tuple(cache._replace(id=None) for cache in machine.caches)
    assert zone_objects(machine._replace(caches=nameless), "L3") == {}


def test_packages_and_l3_groups_are_numbered_by_id() -> None:
    """On some machines, numbering does not start at the first package.

    The kubelet ranks packages and L3 groups by id.
    """
    machine = big_machine()
    packages = tuple(package._replace(id=1 - number) for number, package in enumerate(machine.packages))
    caches = tuple(cache._replace(id=len(machine.caches) - number) for number, cache in enumerate(machine.caches))
    zones = zone_objects(machine._replace(packages=packages, caches=caches))
    assert read_attributes(zones["package-0"])["zonewise.dev/cpus"] == "64-127,192-255"
    assert [zones[f"node-{number}"]["parent"] for number in (0, 4)] == ["package-1", "package-0"]
    assert read_attributes(zones["l3-0"])["zonewise.dev/cpus"] == "120-127,248-255"
    without_ids = tuple(package._replace(id=None) for package in machine.packages)
    assert zone_objects(machine._replace(packages=without_ids)) == zone_objects(machine)


def test_cores() -> None:
    """The CPUs of each core are listed per zone if any core has several."""
    assert read_attributes(zone_objects(gpu_server())["node-0"])[names.CORES] == "0-27/112-139"
    assert read_attributes(zone_objects(hybrid())["node-0"])[names.CORES] == "0-7*2;8-15"
    assert names.CORES not in read_attributes(zone_objects(grace_blackwell())["node-0"])


def test_cpus_without_a_known_core_are_separate_cores() -> None:
    machine = gpu_server()
    zones = zone_objects(machine._replace(cores=machine.cores[1:]))
    assert read_attributes(zones["node-0"])[names.CORES] == "0,112;1-27/113-139"


def test_reserved_zones_are_listed() -> None:
    """They are not zones of the object, but still NUMA nodes."""
    machine = grace_blackwell()
    obj = machine_to_nrt(machine, "node")
    reserved = CpuSet.parse_list(read_attributes(obj)[names.EMPTY_ZONES])
    shown = {
        int(zone["name"].rpartition("-")[2]) for zone in obj["zones"] if zone["name"].startswith(("node-", "device-"))
    }
    assert reserved.isdisjoint(CpuSet(shown))
    assert {*reserved, *shown} == {zone.id for zone in machine.zones}
    assert names.EMPTY_ZONES not in read_attributes(machine_to_nrt(gpu_server(), "node"))


def test_hybrid_cores_as_nfd_has_them() -> None:
    """The CPUs of performance and efficiency cores are attributes with the names of NFD's topology updater."""
    attributes = read_attributes(machine_to_nrt(hybrid(), "node"))
    assert (attributes["cpu_core"], attributes["cpu_atom"]) == ("0-7", "8-15")


def test_a_gpu() -> None:
    """A GPU is a zone below its node, with its nearest NIC, and the attribute names of Dynamic Resource Allocation."""
    zone = zone_objects(gpu_server())["gpu-0000-2a-00-0"]
    assert (zone["type"], zone["parent"]) == ("GPU", "node-0")
    attributes = read_attributes(zone)
    assert attributes["resource.kubernetes.io/pciBusID"] == "0000:2a:00.0"
    assert attributes["resource.kubernetes.io/pcieRoot"] == "pci0000:26"
    assert attributes["resource.kubernetes.io/numaNode"] == "0"
    assert attributes["zonewise.dev/nearest-nics"] == "0000:29:00.0"
    assert attributes["zonewise.dev/nearest-nics-relation"] == "PIX"


def test_a_gpu_of_unknown_zone_has_no_parent() -> None:
    """Neither the parent nor the standard attribute is guessed."""
    machine = gpu_server()
    gpu = machine.gpus[0]._replace(zone=None)
    zone = zone_objects(machine._replace(gpus=(gpu,)))["gpu-0000-19-00-0"]
    assert "parent" not in zone
    assert "resource.kubernetes.io/numaNode" not in read_attributes(zone)


def test_a_nic() -> None:
    """A NIC is one zone with its network and its RDMA device; virtual functions are not zones."""
    zones = zone_objects(gpu_server(), "NIC")
    assert len(zones) == 10
    attributes = read_attributes(zones["nic-0000-18-00-0"])
    assert attributes["zonewise.dev/netdev"] == "ib0"
    assert attributes["zonewise.dev/rdma"] == "mlx5_0"
    assert attributes["zonewise.dev/rate-gbps"] == "400"
    assert attributes["zonewise.dev/link-layer"] == "InfiniBand"
    assert not any(name.startswith("nic-0000-02-02") for name in zones)


def test_the_object_of_a_large_machine_is_small() -> None:
    """The API server accepts 1.5 MiB. Every node has such an object, so it must be much smaller."""
    sizes = [len(render_yaml(machine_to_nrt(build(), "node"))) for build in ALL.values()]
    assert max(sizes) < 32 << 10


def test_a_machine_without_facts() -> None:
    """An object without zones is valid and contains no false facts."""
    obj = machine_to_nrt(Machine(), "node")
    assert obj["zones"] == []
    assert list(refusals(obj, NODE_RESOURCE_TOPOLOGY)) == []
