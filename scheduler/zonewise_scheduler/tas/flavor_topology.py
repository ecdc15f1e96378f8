"""The nodes of a resource flavor, in the levels of its topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """Where pods of one flavor may be placed."""

    def __init__(self, flavor: ResourceFlavor, tree: TopologyTree, nodes: NodeInfoTable) -> None:
        self.flavor = flavor
        self.tree = tree
        self.nodes = nodes
        self.leaf_rows: NDArray[np.int64] = tree.rows[tree.leaf_offsets]
        """(leaves,): the node of each leaf, where leaves are nodes."""
        self.empty_snapshot = NodeTASFlavorSnapshot(tree, nodes, tolerations=flavor.tolerations)
        """What there is for pods where none are; pods get the flavor's tolerations too."""


def build_flavor_topology(
    flavor: ResourceFlavor, levels: Sequence[str], nodes: NodeInfoTable, ready: NDArray[np.bool_] | None = None
) -> FlavorTopology:
    """Return the nodes with a flavor's labels that are schedulable and ready; there may be none yet.

    `levels`: of its Topology, the outermost first; `ready`: (rows,), None: all nodes are. Raises ValueError for a
    Topology without levels, and for one with zones elsewhere than right below the host.
    """
    rows, keys = nodes_matching_flavor(nodes, flavor.node_labels), host_levels(levels)
    return FlavorTopology(
        flavor,
        topology_tree_from_nodes(flavor.topology_name, keys, nodes, rows if ready is None else rows & ready),
        nodes,
    )
