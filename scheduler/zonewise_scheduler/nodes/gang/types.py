"""Inputs and results of the placement of a gang."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zonewise_scheduler.admission.node import NodeState
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.gang.topology_levels import TopologyLevels

_NO_LIMITS: Mapping[int, int] = MappingProxyType({})


class NodeSnapshot(NamedTuple):
    """Nodes by row, with all assumed pods; a node has the same row in all parts."""

    table: NodeStateTable
    """States of the nodes' zones; None without a report."""
    nodes: NodeInfoTable
    levels: TopologyLevels


class GangPodSet(NamedTuple):
    """Pods of one template."""

    name: str
    size: int
    """The number of pods."""
    shape: PodShape
    constraints: Constraints = Constraints()
    required: str = ""
    """Level at which one domain must hold all pods; "": none."""
    preferred: str = ""
    """Level at which one domain should hold all pods. If none can, one domain of a wider level does, or any nodes."""
    group: str = ""
    """Sets of one group share a domain, for example a leader and its workers. Their levels must be equal."""
    limits: Mapping[int, int] = _NO_LIMITS
    """By row: the maximum number of these pods on a node, if something other than its kubelet limits it."""


class GangPodSetPlacement(NamedTuple):
    """The nodes of the pods of one set, in the order of their ranks."""

    name: str
    rows: NDArray[np.int64]
    """Rows of the snapshot; neighbours in rank are neighbours in the topology."""
    nodes: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    """The kubelets' predicted verdicts: assignments of zones, and what is uncertain about them."""


class GangPlacement(NamedTuple):
    """Nodes for all pods at once; nothing is assumed yet."""

    sets: tuple[GangPodSetPlacement, ...]
    """Placements in the order of the input sets."""
    order: tuple[str, ...]
    """The names of the sets, in the order in which pods that share a node must reach its kubelet.
    Another order may lead to other verdicts. Pods of one set may come in any order."""
    after: dict[int, NodeState]
    """The states of the changed nodes, by row, with all the pods."""
    scheduler_only: tuple[str, ...] = ()
    """Constraints of these pods that only kube-scheduler checks (filters.constraints scheduler_only_constraints)."""


class Cause(NamedTuple):
    """The reason why a number of nodes admit none of the pods."""

    nodes: int
    """The number of nodes."""
    reason: str
    """The filter or the kubelet's reason; "" for nodes without a node object or a report."""
    message: str
    example: str = ""
    """A node for which the message is exact."""


class GangDiagnosis(NamedTuple):
    """The reason why there is no placement, for the first set without one."""

    pod_set: str
    size: int
    fitting_pods: int
    """The number of its pods that fit together, on any nodes."""
    causes: tuple[Cause, ...] = ()
    """Causes, sorted by the number of nodes, highest first."""
    level: str = ""
    """The level that prevents a placement; "": even all nodes together do not suffice."""
    domain: str = ""
    """Label value of the level's domain that fits the most pods."""
    domain_pods: int = 0
    """The number of pods that fit in this domain."""
    scheduler_only: tuple[str, ...] = ()
    """As in GangPlacement."""

    def __str__(self) -> str:
        """Return the diagnosis as sentences, one per line."""
        lines = [f"{self.fitting_pods} of {self.size} pods of {self.pod_set} fit at once"]
        if self.level:
            lines.append(f"all must be in one {self.level}; {self.domain or 'none'} fits most, {self.domain_pods}")
        lines += [f"{cause.nodes:,} node{'s' if cause.nodes > 1 else ''}: {cause.message}" for cause in self.causes]
        return "\n".join(lines)
