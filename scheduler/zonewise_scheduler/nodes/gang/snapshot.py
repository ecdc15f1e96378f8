"""A cluster at one moment: what a decision about gangs is made from."""

from typing import NamedTuple

from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.gang.topology_levels import TopologyLevels


class NodeSnapshot(NamedTuple):
    """Nodes by row, the same in all parts; with everything in flight."""

    table: NodeStateTable
    """The states of their zones; None where there is no report."""
    nodes: NodeInfoTable
    levels: TopologyLevels
