"""The nodes of a resource flavor, in the levels of its topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.placing.zones import without_zone
from zonewise_scheduler.queue.topology.supply import NodeSupply, eligible
from zonewise_scheduler.queue.topology.tree import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.queue.quota.model.queues import ResourceFlavor
    from zonewise_scheduler.queue.topology.tree import Tree


class Ground:
    """Where pods of one flavor may be placed."""

    def __init__(self, flavor: ResourceFlavor, tree: Tree, nodes: NodeTable) -> None:
        self.flavor = flavor
        self.tree = tree
        self.nodes = nodes
        self.rows: NDArray[np.int64] = tree.members[tree.starts]
        """(leaves,): the node of each leaf, where leaves are nodes."""
        self.idle = NodeSupply(tree, nodes, tolerations=flavor.tolerations)
        """What there is for pods where none are; pods get the flavor's tolerations too."""


def ground_of(
    flavor: ResourceFlavor, levels: Sequence[str], nodes: NodeTable, ready: NDArray[np.bool_] | None = None
) -> Ground:
    """Return the nodes with a flavor's labels that are schedulable and ready; there may be none yet.

    `levels`: of its Topology, the outermost first; `ready`: (rows,), None: all nodes are. Raises ValueError for a
    Topology without levels, and for one with zones elsewhere than right below the host.
    """
    rows, keys = eligible(nodes, flavor.labels), without_zone(levels)
    return Ground(flavor, tree_of(flavor.topology, keys, nodes, rows if ready is None else rows & ready), nodes)
