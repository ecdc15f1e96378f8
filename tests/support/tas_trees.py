"""Small clusters of blocks, racks and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot
from zonewise_scheduler.tas.tree.topology_tree import topology_tree_from_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.kubelet_cases import Json

KEYS = ("block", "rack", HOSTNAME)


class Host(NamedTuple):
    """A node, and the CPUs that it has."""

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


def supply_of(hosts: Sequence[Host], keys: Sequence[str] = KEYS) -> NodeTASFlavorSnapshot:
    """A supply of hosts of which a pod's `cpu` takes thousandths."""
    nodes = NodeInfoTable([read_node_info(node_of(host)) for host in hosts])
    return NodeTASFlavorSnapshot(topology_tree_from_nodes("default", keys, nodes, np.ones(len(hosts), np.bool_)), nodes)
