"""What is to be placed, and where it is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zonewise_scheduler.admission.node import NodeState
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.admission.verdict import Verdict
from zonewise_scheduler.nodes.filters.constraints import Constraints


class GangPodSet(NamedTuple):
    """Pods of one template."""

    name: str
    size: int
    """How many pods."""
    shape: PodShape
    constraints: Constraints = Constraints()
    required: str = ""
    """The level whose one domain must hold all of them; "": none."""
    preferred: str = ""
    """The level whose one domain should hold all of them; else one of a level further out, else any nodes."""
    group: str = ""
    """Sets of the same group share the one domain, as a leader and its workers; their levels must be the same."""


class GangPodSetPlacement(NamedTuple):
    """Where the pods of one set go, in the order of their ranks."""

    name: str
    rows: NDArray[np.int64]
    """Of the snapshot; neighbours in rank are neighbours in the topology."""
    nodes: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    """The kubelets' answers: assignments of zones and what is uncertain about them."""


class GangPlacement(NamedTuple):
    """Room for all pods at once; nothing is taken yet."""

    sets: tuple[GangPodSetPlacement, ...]
    """In the order they were given in."""
    order: tuple[str, ...]
    """The names of the sets in the order in which pods that share a node are to reach its kubelet: it may answer
    otherwise to another order. Among pods of one set, any order does."""
    after: dict[int, NodeState]
    """The nodes that change, by row, as they are with all the pods."""
    scheduler_only: tuple[str, ...] = ()
    """What kube-scheduler alone can decide of these pods (nodes.constraints left_to_scheduler)."""


class Cause(NamedTuple):
    """Why some nodes take none of the pods."""

    nodes: int
    """How many."""
    reason: str
    """The filter or the kubelet's reason; "" where nothing is known of the node."""
    message: str
    example: str = ""
    """One of the nodes, of which the sentence is true to the letter."""


class GangDiagnosis(NamedTuple):
    """Why there is no placement, told of the first set that finds none."""

    pod_set: str
    size: int
    fitting_pods: int
    """How many of its pods fit at once, wherever they may."""
    causes: tuple[Cause, ...] = ()
    """Most nodes first."""
    level: str = ""
    """The level that stands in the way; "": even all nodes together have too little room."""
    domain: str = ""
    """Its domain with the most room, by the value of its label."""
    domain_pods: int = 0
    """How many of the pods that one holds."""
    scheduler_only: tuple[str, ...] = ()
    """As of a Placement."""

    def __str__(self) -> str:
        """Return all of it as sentences, one a line."""
        lines = [f"{self.fitting_pods} of {self.size} pods of {self.pod_set} fit at once"]
        if self.level:
            lines.append(
                f"all must be in one {self.level}; {self.domain or 'none'} has most room, for {self.domain_pods}"
            )
        lines += [f"{one.nodes:,} node{'s' if one.nodes > 1 else ''}: {one.message}" for one in self.causes]
        return "\n".join(lines)
