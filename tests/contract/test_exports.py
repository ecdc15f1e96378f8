"""One machine, four exports: each is valid for every captured machine, and all of them agree."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from support.crd import DNS_LABEL, NODE_RESOURCE_TOPOLOGY, refusals
from support.machines import ALL
from support.snapshots import scan_of, snapshots
from support.trees import server_tree
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles
from zonewise.objects.labels import machine_to_labels
from zonewise.objects.machine_json import machine_to_json
from zonewise.objects.nccl import machine_to_nccl
from zonewise.objects.nearest_nics import nearest_nics
from zonewise.objects.nrt import machine_to_nrt
from zonewise_common.nrt.zones import MAX_NODE_ZONES

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

MADE = "made"
MACHINES = [MADE, *ALL, *snapshots()]

LABEL = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
NCCL_LINE = re.compile(r' *(</[a-z]+>|<[a-z]+( [a-z_]+="[^"<>&]*")*/?>)')


@functools.cache
def machine_of(name: str) -> Machine:
    if name == MADE:
        return discover(MemoryFiles(server_tree().items()))
    return ALL[name]() if name in ALL else scan_of(name).machine


@pytest.mark.parametrize("name", MACHINES)
def test_the_object_is_valid(name: str) -> None:
    """An API server accepts the NodeResourceTopology, and its zones have unique names."""
    made = machine_to_nrt(machine_of(name), "node")
    assert list(refusals(made, NODE_RESOURCE_TOPOLOGY)) == []
    names = [zone["name"] for zone in made["zones"]]
    assert len(set(names)) == len(names)
    assert all(DNS_LABEL.fullmatch(one) for one in names)
    assert {zone["parent"] for zone in made["zones"] if "parent" in zone} <= set(names)


@pytest.mark.parametrize("name", MACHINES)
def test_labels_are_valid(name: str) -> None:
    """Kubernetes accepts every label."""
    labels = machine_to_labels(machine_of(name))
    assert all(LABEL.fullmatch(label) and VALUE.fullmatch(value) for label, value in labels.items())


@pytest.mark.parametrize("name", MACHINES)
def test_the_topology_file_is_valid(name: str) -> None:
    """NCCL's parser accepts every line."""
    assert all(NCCL_LINE.fullmatch(line) for line in machine_to_nccl(machine_of(name)).splitlines())


@pytest.mark.parametrize("name", MACHINES)
def test_zones(name: str) -> None:
    """Nodes of the object are the CPU zones of the JSON with their CPUs and memory; a label counts the zones."""
    machine = machine_of(name)
    document = machine_to_json(machine)
    nodes = {zone["name"]: zone for zone in machine_to_nrt(machine, "node")["zones"] if zone["type"] == "Node"}
    of_cpus = [zone for zone in document["zones"] if zone["kind"] == "cpu"]
    assert list(nodes) == [f"node-{zone['id']}" for zone in of_cpus if zone["id"] < MAX_NODE_ZONES]
    labelled = machine_to_labels(machine).get("zonewise.dev/zones")
    assert labelled == (str(len(of_cpus)) if of_cpus else None)
    zones = {f"node-{zone.id}": zone for zone in machine.zones}
    for node_name, node in nodes.items():
        resources = {resource["name"]: int(resource["capacity"]) for resource in node["resources"]}
        assert resources.get("cpu", 0) == len(zones[node_name].cpus)
        assert resources.get("memory") == zones[node_name].memory


@pytest.mark.parametrize("name", MACHINES)
def test_gpus(name: str) -> None:
    """The object, the labels and the topology file have the GPUs of the JSON."""
    machine = machine_of(name)
    addresses = sorted(gpu.address for gpu in machine.gpus if gpu.address is not None)
    zones = [zone for zone in machine_to_nrt(machine, "node")["zones"] if zone["type"] == "GPU"]
    told = [one["value"] for zone in zones for one in zone["attributes"] if one["name"].endswith("/pciBusID")]
    assert sorted(told) == addresses
    assert machine_to_labels(machine).get("zonewise.dev/gpus") == (str(len(machine.gpus)) if machine.gpus else None)
    functions = {function.address for function in machine.pci}
    tree = ElementTree.fromstring(machine_to_nccl(machine))  # noqa: S314 -- made by us
    assert functions & set(addresses) <= {element.get("busid") for element in tree.iter("pci")} <= functions


@pytest.mark.parametrize("name", MACHINES)
def test_nearest_nics(name: str) -> None:
    """The NICs nearest to a GPU in the object are at the distance of the JSON's links, and no NIC is nearer."""
    machine = machine_of(name)
    relations = {frozenset((link.a, link.b)): link.relation for link in machine.links}
    for gpu, near in nearest_nics(machine).items():
        assert {relations[frozenset((gpu, nic))] for nic in near.nics} == {near.relation}


@pytest.mark.parametrize("name", MACHINES)
def test_zones_of_the_topology_file(name: str) -> None:
    """A device is below the CPUs of its zone, or below the CPUs with number -1 if its zone is unknown."""
    machine = machine_of(name)
    zones = {function.address: function.zone for function in machine.pci}
    tree = ElementTree.fromstring(machine_to_nccl(machine))  # noqa: S314 -- made by us
    for cpu in tree.iter("cpu"):
        for device in cpu.findall("./pci"):
            zone = zones[device.get("busid", "")]
            assert cpu.get("numaid") == str(-1 if zone is None else zone)
