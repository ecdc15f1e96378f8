"""Descriptions of nodes: the meaning of each text, and the errors for others."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from zonewise_sandbox.up.machines import EVICTION_HARD
from zonewise_sandbox.up.node_descriptions import MAX_NODES, RACK_LABEL, NodesError, parse_nodes
from zonewise_sandbox.up.node_kinds import NODE_KINDS

if TYPE_CHECKING:
    from pathlib import Path

FLEET = """\
levels:
- {name: block, count: 2}
- {name: node, count: 3}
kinds:
- {name: gpu, domains: 1, cpu: 16, memory: 64Gi, resources: {nvidia.com/gpu: 3}, zones: 2, policy: single-numa-node}
- {name: cpu, cpu: 8, memory: 32Gi}
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("hgx-h100", ["hgx-h100-0"]),
        ("2xgb200", ["gb200-0", "gb200-1"]),
        ("2", ["hgx-h100-0", "hgx-h100-1"]),
        ("2x64", ["cpu-64-0", "cpu-64-1"]),
        ("1x64x256Gi", ["cpu-64-0"]),
        ("1xgb200,1xmi300x, 1xgb200", ["gb200-0", "mi300x-0", "gb200-1"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert [node.name for node in parse_nodes(text).nodes] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "'foo' is neither a kind nor a file: use hgx-h100,"),
        ("4xfoo", "'foo' is neither a kind nor a file"),
        ("", "'' is neither a kind nor a file"),
        ("0", f"0 nodes are outside 1 to {MAX_NODES}"),
        ("5001", f"5001 nodes are outside 1 to {MAX_NODES}"),
        ("3000xgb200,3000xgb200", f"6000 nodes are outside 1 to {MAX_NODES}"),
        ("2x64x1Quark", "memory"),
        ("2x1", "at least 2 CPUs"),
        ("2x8x1Mi", "more than 1 GiB"),
    ],
)
def test_wrong_texts(text: str, message: str) -> None:
    with pytest.raises(NodesError, match="--nodes") as caught:
        parse_nodes(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", NODE_KINDS)
def test_a_kind_has_what_its_text_says(name: str) -> None:
    """The machine that discovery would find, the kubelet's zones and the capacity agree with the kind."""
    kind = NODE_KINDS[name]
    (node,) = parse_nodes(name).nodes
    machine = node.machine.machine
    assert [zone.cpus for zone in machine.zones] == [zone.cpus for zone in node.machine.zones]
    assert len(machine.cpus.online) == kind.cpus == node.machine.capacity["cpu"]
    assert sum(len(core.cpus) for core in machine.cores) == kind.cpus
    assert {core.zone for core in machine.cores} == set(range(kind.zones))
    assert all(package.cpus for package in machine.packages)
    assert node.machine.capacity["memory"] == kind.zones * kind.memory == machine.memory
    assert f"{kind.zones} zones of {kind.cores} cores" in kind.text
    for resource, counts in kind.devices.items():
        assert node.machine.capacity[resource] == sum(counts)


def test_a_rack_has_four_nodes_of_one_group() -> None:
    labels = [node.labels[RACK_LABEL] for node in parse_nodes("5xgb200,2xmi300x").nodes]
    assert labels == ["rack-0"] * 4 + ["rack-1"] + ["rack-2"] * 2


def test_a_file_of_nodes(tmp_path: Path) -> None:
    """Kinds, zones, policies and levels are those in the file."""
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    nodes = parse_nodes(str(file))
    assert len(nodes.nodes) == 6
    gpu, cpu = nodes.nodes[0].machine, nodes.nodes[-1].machine
    assert (len(gpu.zones), len(cpu.zones)) == (2, 1)
    assert [device.zones for device in gpu.devices] == [(0,), (0,), (1,)]
    assert (gpu.config.topology_manager_policy, cpu.config.topology_manager_policy) == ("single-numa-node", "none")
    assert gpu.allocatable == {"cpu": "15", "memory": str((64 << 30) - EVICTION_HARD), "pods": "110",
                               "nvidia.com/gpu": "3"}  # fmt: skip
    assert nodes.levels == ("zonewise.dev/topology-block", "kubernetes.io/hostname")
    assert nodes.nodes[0].labels["zonewise.dev/topology-block"] == "block-0"
    assert nodes.nodes[0].labels["kubernetes.io/hostname"] == nodes.nodes[0].name


def test_a_file_with_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.replace("cpu: 8", "cpu: eight"))
    with pytest.raises(NodesError, match=r"fleet\.yaml: kinds\[1\]\.cpu"):
        parse_nodes(str(file))


def test_a_capture(tmp_path: Path) -> None:
    """Discovery reads its zones; a directory and an archive give the same nodes."""
    root = tmp_path / "Node 7" / "sys/devices/system"
    for zone in range(2):
        directory = root / f"node/node{zone}"
        directory.mkdir(parents=True)
        (directory / "cpulist").write_text(f"{2 * zone}-{2 * zone + 1}\n")
        (directory / "meminfo").write_text(f"Node {zone} MemTotal:       16777216 kB\n")
        (directory / "distance").write_text("10 20\n" if zone == 0 else "20 10\n")
    (root / "node/online").write_text("0-1\n")
    for cpu in range(4):
        topology = root / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{cpu}\n")
        (topology / "physical_package_id").write_text(f"{cpu // 2}\n")
        (topology / "thread_siblings_list").write_text(f"{cpu}\n")
    (root / "cpu/online").write_text("0-3\n")
    archive = tmp_path / "node-7.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "Node 7", arcname="node-7")
    for path in (tmp_path / "Node 7", archive):
        nodes = parse_nodes(f"2x{path}").nodes
        assert [node.name for node in nodes] == ["node-7-0", "node-7-1"]
        assert [str(zone.cpus) for zone in nodes[0].machine.zones] == ["0-1", "2-3"]
        assert nodes[0].machine.capacity == {"cpu": 4, "memory": 32 << 30, "pods": 110}


def test_no_capture(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    with pytest.raises(NodesError, match="no zone has CPUs"):
        parse_nodes(str(tmp_path))
