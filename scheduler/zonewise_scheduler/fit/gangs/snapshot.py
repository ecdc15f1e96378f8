"""A cluster at one moment: what a decision about gangs is made from."""

from typing import NamedTuple

from zonewise_scheduler.fit.batch.table import NodeStateTable
from zonewise_scheduler.fit.gangs.levels import TopologyLevels
from zonewise_scheduler.fit.nodes.table import NodeInfoTable


class NodeSnapshot(NamedTuple):
    """Nodes by row, the same in all parts; with everything in flight."""

    table: NodeStateTable
    """The states of their zones; None where there is no report."""
    nodes: NodeInfoTable
    levels: TopologyLevels
