"""A cluster at one moment: what a decision about gangs is made from."""

from typing import NamedTuple

from zonewise_scheduler.fit.batch.table import Table
from zonewise_scheduler.fit.gangs.levels import Levels
from zonewise_scheduler.fit.nodes.table import NodeTable


class Snapshot(NamedTuple):
    """Nodes by row, the same in all parts; with everything in flight."""

    table: Table
    """The states of their zones; None where there is no report."""
    nodes: NodeTable
    levels: Levels
