"""Small clusters of blocks, racks and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment
from zonewise_scheduler.tas.placement.flavor_assignments import TASAssignments
from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot
from zonewise_scheduler.tas.tree.topology_tree import TopologyTree, topology_tree_from_nodes
from zonewise_scheduler.tas.types import TASPodSetRequests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest
    from zonewise_scheduler.tas.snapshot.assignment_failure import TopologyAssignmentFailure

KEYS = ("block", "rack", HOSTNAME)
BLOCK, RACK, HOST = KEYS


def topology_tree_from_paths(name: str, level_keys: Sequence[str], paths: Sequence[Sequence[str]]) -> TopologyTree:
    """Return the tree of nodes with the values of paths as labels; a row is an index in the paths."""
    labels = [dict(zip(level_keys, path, strict=True)) for path in paths]
    nodes = node_table(*(node_object(f"n{index}", labels_of_path) for index, labels_of_path in enumerate(labels)))
    return topology_tree_from_nodes(name, level_keys, nodes, all_rows(nodes))


class Host(NamedTuple):
    """A node; its CPUs are in millis."""

    name: str
    block: str
    rack: str
    cpus: int

    @property
    def path(self) -> tuple[str, str, str]:
        return self.block, self.rack, self.name


def node_of(host: Host) -> Json:
    return {
        "metadata": {"name": host.name, "labels": dict(zip(KEYS, host.path, strict=True))},
        "status": {"allocatable": {"cpu": f"{host.cpus}m", "pods": "110"}},
    }


def flavor_snapshot_of(hosts: Sequence[Host], level_keys: Sequence[str] = KEYS) -> NodeTASFlavorSnapshot:
    """Return the snapshot of the hosts; a pod's `cpu` request is in milli-CPUs."""
    nodes = NodeInfoTable([read_node_info(node_of(host)) for host in hosts])
    tree = topology_tree_from_nodes("default", level_keys, nodes, np.ones(len(hosts), np.bool_))
    return NodeTASFlavorSnapshot(tree, nodes)


HOSTS = (
    Host("h1", "a", "x", 4),
    Host("h2", "a", "x", 2),
    Host("h3", "a", "y", 3),
    Host("h4", "b", "x", 8),
    Host("h5", "b", "y", 1),
)


def workers(
    pod_count: int, request: PodSetTopologyRequest | None, *, cpu: int = 1, name: str = "workers"
) -> TASPodSetRequests:
    return TASPodSetRequests(name, pod_count, {"cpu": cpu}, request)


def assigned_hosts(result: TASAssignments | TopologyAssignmentFailure, name: str = "workers") -> dict[str, int]:
    """Return the number of pods on each host in a result, which must be an assignment."""
    assert isinstance(result, TASAssignments)
    return {domain.values[-1]: domain.pods for domain in result.assignments[name].domains}


def node_object(name: str, labels: Mapping[str, str], cpu: str = "1", **spec: object) -> Any:
    status = {"allocatable": {"cpu": cpu, "pods": "10"}}
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec, "status": status}


def node_table(*nodes: Any) -> NodeInfoTable:
    return NodeInfoTable([read_node_info(node) for node in nodes])


def all_rows(nodes: NodeInfoTable) -> Any:
    return np.ones(len(nodes), np.bool_)


def assignment_of(pods_by_host: Mapping[str, int]) -> TopologyAssignment:
    return TopologyAssignment(
        (HOSTNAME,), tuple(TopologyDomainAssignment((host,), pods) for host, pods in pods_by_host.items())
    )
