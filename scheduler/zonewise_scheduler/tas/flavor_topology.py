"""The topology of a resource flavor: its nodes in the levels of its Topology (pkg/cache/scheduler/tas_flavor.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.taints import lasting_tolerations
from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot, nodes_matching_flavor
from zonewise_scheduler.tas.tree.topology_tree import topology_tree_from_nodes
from zonewise_scheduler.tas.zones.zone_level import host_levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


class FlavorTopology:
    """The tree of a flavor's nodes, and its snapshot without usage."""

    def __init__(self, flavor: ResourceFlavor, tree: TopologyTree, nodes: NodeInfoTable) -> None:
        self.flavor = flavor
        self.tree = tree
        self.nodes = nodes
        self.leaf_rows: NDArray[np.int64] = tree.rows[tree.leaf_offsets]
        """(leaves,): row of each leaf's node, if leaves are nodes."""
        self.empty_snapshot = NodeTASFlavorSnapshot(tree, nodes, tolerations=lasting_tolerations(flavor.tolerations))
        """The snapshot without TAS usage; pods get the flavor's lasting tolerations in addition to their own."""

    def with_nodes(self, nodes: NodeInfoTable) -> FlavorTopology:
        """Return the same tree over a copy of its nodes; the two share no cache."""
        return FlavorTopology(self.flavor, self.tree, nodes)


def build_flavor_topology(
    flavor: ResourceFlavor, levels: Sequence[str], nodes: NodeInfoTable, ready: NDArray[np.bool_] | None = None
) -> FlavorTopology:
    """Return the topology of the schedulable and ready nodes with a flavor's labels; it may be empty.

    `levels`: levels of the flavor's Topology, the highest first; `ready`: (rows,), None: all nodes are ready. Raises
    ValueError for a Topology without levels, or if its zone level is not directly below the hostname.
    """
    rows, level_keys = nodes_matching_flavor(nodes, flavor.node_labels), host_levels(levels)
    if ready is not None:
        rows &= ready
    tree = topology_tree_from_nodes(flavor.topology_name, level_keys, nodes, rows)
    return FlavorTopology(flavor, tree, nodes)
