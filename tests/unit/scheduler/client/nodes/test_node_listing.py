"""Nodes zone by zone: free resources and their fragmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from support.command_cluster import GPU, report
from zonewise_common.cli.output_format import render_listing
from zonewise_common.cli.terminal import Terminal
from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from zonewise_scheduler.client.describe.describe_node import describe_node
from zonewise_scheduler.client.jobs.pod_facts import PodFacts, read_pod_facts
from zonewise_scheduler.client.nodes.node_facts import (
    NodeAvailability,
    free_gpus,
    largest_block,
    largest_share,
    read_node_facts,
)
from zonewise_scheduler.client.nodes.node_listing import list_nodes, memory_text, sorted_nodes
from zonewise_scheduler.client.nodes.node_reading import read_nodes

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.cluster.session import Session

Json = dict[str, Any]


def node(name: str = "node-0", *conditions: Json, **spec: Any) -> Json:
    allocatable = {"cpu": "16", "memory": "128Gi", "pods": "110", GPU: "8"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [ready, *conditions]},
    }


def pod(name: str, node_name: str = "node-0", phase: str = "Running", **requests: str) -> PodFacts:
    amounts = {GPU if key == "gpu" else key: value for key, value in requests.items()}
    container = {"name": "c", "resources": {"requests": amounts}}
    obj = {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"nodeName": node_name, "containers": [container]},
        "status": {"phase": phase},
    }
    return read_pod_facts(obj, [])


def facts(*pods: PodFacts, free: Any = ((8, 4), (2, 1)), obj: Json | None = None) -> NodeAvailability:
    problems: list[str] = []
    found = read_node_facts("node-0", obj or node(), None if free is None else report("node-0", free), pods, problems)
    assert problems == []
    return found


def table(*nodes: NodeAvailability, output: str = "table", width: int = 0) -> list[str]:
    return render_listing(list_nodes(nodes), output, Terminal(width=width)).splitlines()


def test_zones_of_a_node() -> None:
    assert table(facts(pod("a", cpu="6", memory="48Gi", gpu="3"))) == [
        "NODE     ZONE   CPUS FREE   OF   MEM FREE      OF   GPUS FREE   OF   LARGEST   PODS",
        "node-0                 10   16       80Gi   128Gi           5    8    4 GPUs      1",
        "            0           8    8       64Gi    64Gi           4    4",
        "            1           2    8       16Gi    64Gi           1    4",
    ]


def test_eighty_columns() -> None:
    """A node of 223 CPUs and 2 TiB fits, too."""
    large = node()
    large["status"]["allocatable"] |= {"cpu": "223", "memory": "2097051Mi"}
    lines = table(facts(obj=large), width=80)
    assert "2047.9Gi" in lines[1]
    assert max(map(len, lines)) <= 80


def test_wide_has_the_ids_of_free_cpus() -> None:
    lines = table(facts(), output="wide")
    assert "14-15" in lines[3]
    assert "single-numa-node/container" in lines[1]


def test_ended_pods_and_pods_of_other_nodes_do_not_count() -> None:
    found = facts(pod("a", cpu="4", phase="Succeeded"), pod("b", "node-1", cpu="4"), pod("c", cpu="500m"))
    assert (found.free("cpu"), len(found.pods or ())) == (15_500, 1)
    assert table(found)[1].split()[1] == "15.5"


def test_without_a_report_zones_are_unknown() -> None:
    found = facts(free=None)
    assert found.zones is None
    assert table(found)[1].split()[-2:] == ["no", "report"]
    assert list_nodes([found]).document["items"][0]["zones"] is None


def test_problems_of_a_node() -> None:
    bad = {
        "type": "MemoryPressure",
        "status": "True",
        "reason": "KubeletHasInsufficientMemory",
        "message": "little is left",
    }
    found = facts(obj=node("node-0", bad, unschedulable=True))
    assert found.problems == ("MemoryPressure: KubeletHasInsufficientMemory: little is left",)
    assert table(found)[1].endswith("MemoryPressure")
    assert table(facts(obj=node("node-0", unschedulable=True)))[1].endswith("cordoned")
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    assert facts(obj=down).problems == ("not Ready: NodeStatusUnknown",)


def test_conditions_that_must_be_true() -> None:
    """A provider's node monitoring agent adds conditions such as NetworkingReady."""
    ready, broken = ({"type": name, "status": status} for name, status in (("NetReady", "True"), ("GPUReady", "False")))
    assert facts(obj=node("node-0", ready, broken)).problems == ("not GPUReady",)


def test_free_resources_are_unknown_without_the_pods() -> None:
    """A user who may not list pods in all namespaces must not see nodes as empty."""
    unknown = read_node_facts("node-0", node(), report("node-0"), None, [])
    assert table(unknown)[1].split() == ["node-0", "?", "16", "?", "128Gi", "?", "8", "4", "GPUs", "?"]
    assert table(unknown, facts())[-1].split()[:9] == ["2", "nodes", "?", "32", "?", "256Gi", "?", "16", "4"]
    document = describe_node(unknown, {}, 0.0, ()).document
    assert (document["free"]["cpu"], document["pods"]) == (None, None)
    assert (free_gpus(unknown), free_gpus(facts())) == (None, 8)


@pytest.mark.parametrize("forbidden", [PODS, NODE_RESOURCE_TOPOLOGIES])
def test_reading_without_a_permission(forbidden: Resource) -> None:
    class Limited:
        def list(self, resource: Resource, **_: str) -> list[Json]:
            if resource == forbidden:
                raise Forbidden(403, "Forbidden", "no right")
            return [node()] if resource == NODES else []

    [only], notes = read_nodes(cast("Session", Limited()))
    assert (only.pods is None, only.zones) == (forbidden == PODS, None)
    assert "no right" in notes[0]
    assert len(notes) == (2 if forbidden == PODS else 1)


def test_the_sum_of_nodes() -> None:
    busy = facts(pod("a", cpu="6", gpu="3"))._replace(name="node-1")
    last = table(facts(), busy)[-1].split()
    assert last[:3] == ["2", "nodes", "26"]
    assert last[-3:] == ["4", "GPUs", "1"]


def test_the_largest_block_of_all_nodes_is_of_one_zone() -> None:
    """Every node is in use; a block is never the sum of several zones or nodes."""
    nodes = [facts(pod("a", gpu="5"), free=((8, 1), (2, 2))), facts(pod("b", gpu="6"), free=((8, 2), (2, 0)))]
    lines = table(*nodes)
    assert [" ".join(lines[i].split()[-3:]) for i in (1, 4, -1)] == ["2 GPUs 1", "2 GPUs 1", "2 GPUs 2"]
    busy = facts(free=((8, 0), (2, 1)))
    assert table(busy, busy)[-1].split()[-3:] == ["1", "GPU", "0"]
    assert list_nodes([busy]).document["items"][0]["largestBlock"] == {"cpus": 8, "gpus": 1}


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("", ["busy", "idle", "unknown"]),
        ("cpus", ["idle", "busy", "unknown"]),
        ("memory", ["idle", "busy", "unknown"]),
        ("gpus", ["idle", "busy", "unknown"]),
        ("pods", ["busy", "idle", "unknown"]),
        ("largest", ["unknown", "idle", "busy"]),
    ],
)
def test_columns_sort_nodes_with_unknown_values_last(column: str, names: list[str]) -> None:
    """The largest block of a node is known from its report, even if the user may not list its pods."""
    busy = facts(pod("a", cpu="6", memory="48Gi", gpu="5"), free=((8, 1), (2, 2)))._replace(name="busy")
    unknown = read_node_facts("unknown", node("unknown"), report("unknown", ((8, 6), (8, 4))), None, [])
    idle = facts()._replace(name="idle")
    assert [each.name for each in sorted_nodes([busy, idle, unknown], column)] == names


def test_the_largest_block_without_gpus_counts_cpus() -> None:
    plain = facts()
    zones = tuple(zone._replace(resources={"cpu": zone.resources["cpu"]}) for zone in plain.zones or ())
    assert table(plain._replace(zones=zones))[1].split()[-3:] == ["8", "CPUs", "0"]


def test_fragmentation() -> None:
    assert largest_block([4, None, 3]) == 4
    assert largest_block([0, 0]) == 0
    assert largest_block([None]) is None
    assert largest_share([4, 4]) == 0.5
    assert largest_share([0, 4, None]) == 1.0
    assert largest_share([0, 0]) is None
    assert largest_share([]) is None
    assert "80%" in table(facts(), output="wide")[1].split()


def test_memory() -> None:
    assert [memory_text(size) for size in (None, 512 << 20, 3 << 29, 64 << 30)] == ["", "512Mi", "1.5Gi", "64Gi"]


def test_a_damaged_report_is_a_problem() -> None:
    problems: list[str] = []
    damaged = report("node-0")
    damaged["zones"][0]["resources"][0]["available"] = "many"
    found = read_node_facts("node-0", node(), damaged, (), problems)
    assert len(found.zones or ()) == 2
    assert problems == ["zones[0].resources[0] (cpu): not a quantity: 'many'"]


def test_requests_of_a_pod() -> None:
    """Init containers run with earlier sidecars, then all others; pod-level requests replace both (KEP-2837)."""
    spec: Json = {
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "i", "resources": {"requests": {"cpu": "6", "memory": "1Gi"}}},
        ],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
        "overhead": {"cpu": "250m"},
    }
    obj = {"metadata": {"name": "p"}, "spec": spec}
    assert read_pod_facts(obj, []).requests == {"cpu": 7250, "memory": 1 << 30}
    spec["resources"] = {"requests": {"cpu": "4"}}
    assert read_pod_facts(obj, []).requests == {"cpu": 4250, "memory": 1 << 30}
