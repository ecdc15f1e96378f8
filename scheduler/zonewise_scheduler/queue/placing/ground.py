"""The nodes of a resource flavor, in the levels of its topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.placing.zones import without_zone
from zonewise_scheduler.queue.topology.supply import NodeSupply, eligible
from zonewise_scheduler.queue.topology.tree import Tree, tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.queue.quota.model.queues import ResourceFlavor
    from zonewise_scheduler.queue.topology.usage import Usage


class Ground(NamedTuple):
    """Where pods of one flavor may be placed."""

    flavor: ResourceFlavor
    tree: Tree
    nodes: NodeTable

    def rows(self) -> NDArray[np.int64]:
        """Return (leaves,): the node of each leaf, where leaves are nodes."""
        return self.tree.members[self.tree.starts]

    def supply(self, used: Usage) -> NodeSupply:
        """Return what is left for pods where others take as much; pods get the flavor's tolerations too."""
        return NodeSupply(self.tree, self.nodes, used, self.flavor.tolerations)


def ground_of(
    flavor: ResourceFlavor, levels: Sequence[str], nodes: NodeTable, ready: NDArray[np.bool_] | None = None
) -> Ground:
    """Return the nodes with a flavor's labels that are schedulable and ready; there may be none yet.

    `levels`: of its Topology, the outermost first; `ready`: (rows,), None: all nodes are. Raises ValueError for a
    Topology without levels, and for one with zones elsewhere than right below the host.
    """
    rows, keys = eligible(nodes, flavor.labels), without_zone(levels)
    return Ground(flavor, tree_of(flavor.topology, keys, nodes, rows if ready is None else rows & ready), nodes)
