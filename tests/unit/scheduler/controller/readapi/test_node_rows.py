"""Rows of nodes: amounts, zones, and the workloads on each zone; unknown amounts are not zero."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.page_cluster import GPU, PageCluster
from zonewise_scheduler.controller.nodes.node_view import NodeRevision
from zonewise_scheduler.controller.nodes.observed_objects import decode_node
from zonewise_scheduler.controller.readapi.node_rows import (
    NODE_COLUMNS,
    RUN_COLUMNS,
    ZONE_COLUMNS,
    NodeSight,
    level_labels,
    node_row,
)
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

Json = dict[str, Any]
RACK = "topology.kubernetes.io/rack"


def node(ready: str = "True", **spec: Any) -> Json:
    return {
        "metadata": {"name": "n", "labels": {RACK: "r1", "block": "b1"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10", GPU: "2"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def row(obj: Json, levels: tuple[str, ...] = ()) -> Json:
    tracked = decode_node(msgspec.Raw(json.dumps(obj).encode()))
    return dict(zip(NODE_COLUMNS, node_row(NodeSight(NodeRevision(tracked, {}), None), levels), strict=True))


def test_a_node_without_a_report_has_no_zones() -> None:
    assert row(node()) == {
        "domains": ("r1",), "state": "Ready", "cpus": 8000, "cpusUsed": 0, "memory": 16 << 30, "memoryUsed": 0,
        "gpus": 2, "gpusUsed": 0, "pods": 10, "podsUsed": 0, "zones": (), "runs": (),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("obj", "state"),
    [(node("False"), "NotReady"), (node("Unknown"), "NotReady"), (node(unschedulable=True), "Unschedulable")],
)
def test_a_node_that_admits_no_pods_has_its_state(obj: Json, state: str) -> None:
    known = row(obj)
    assert known["state"] == state


def test_an_invalid_node_names_its_problem() -> None:
    obj = node()
    obj["status"]["allocatable"]["cpu"] = "many"
    known = row(obj)
    assert known["state"].startswith("Invalid: status.allocatable")
    assert known["cpus"] is None


def test_domains_are_those_of_the_topology() -> None:
    levels = level_labels([
        {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}},
        {"spec": {"levels": [{"nodeLabel": each} for each in ("block", RACK, "kubernetes.io/hostname")]}},
        {"spec": None},
    ])  # fmt: skip
    assert levels == ("block", RACK)
    known = row(node(), levels)
    assert known["domains"] == ("b1", "r1")


def test_zones_and_runs_equal_those_of_the_kubelets() -> None:
    cluster = PageCluster(16, 8, 0, 1_767_225_600.0)
    nodes = cluster.controller.feed.nodes
    assert isinstance(nodes, ClusterNodes)
    by_name = {each.name: each for each in cluster.nodes}
    revisions = cluster.controller.nodes_revised_since(0)
    assert {each.node.name for each in revisions.changed} == by_name.keys() == revisions.names
    assert cluster.controller.nodes_revised_since(revisions.revision).changed == []
    count = 0
    for revision in revisions.changed:
        values = node_row(NodeSight(revision, nodes.last_report(revision.node.name)), ())
        known: Json = dict(zip(NODE_COLUMNS, values, strict=True))
        expected = by_name[revision.node.name]
        zones: list[Json] = [dict(zip(ZONE_COLUMNS, zone, strict=True)) for zone in known["zones"]]
        assert [zone["gpusFree"] for zone in zones] == list(expected.state.device_free or [0] * len(zones))
        assert sum(zone["cpusFree"] for zone in zones) == expected.state.free_cpus.bit_count()
        for run in known["runs"]:
            entry: Json = dict(zip(RUN_COLUMNS, run, strict=True))
            stem = entry["workload"].partition("/")[2]
            held = [each for pod, (_, each) in expected.held.items() if pod.rpartition("-")[0] == stem]
            zone_cpus = expected.kind.cpus.zones
            own = {zone for each in held for zone, cpus in zone_cpus if cpus & each.cpus}
            assert set(entry["zones"]) == own
            count += 1
    assert count > 0
