"""Inputs and outputs of the selection of victims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.admission.node import NodeState, Resource
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

Budgets = Mapping[str, int]
"""Number of disruptions that each PodDisruptionBudget still allows, by "namespace/name"."""


class Preemptor(NamedTuple):
    """A pod that may preempt others: its preemptionPolicy is not Never."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    priority: int


class RunningPod(NamedTuple):
    """A pod on a node."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    requests: Resource
    """What OccupiedNode.info counts for the pod. During an in-place resize, the shape may differ."""
    priority: int
    started: float
    """Value of status.startTime in seconds since the epoch."""
    holdings: Holdings | None
    """Held resources; None if unknown, so that the pod cannot be a victim."""
    terminating: bool = False
    """True if the pod is deleted and its kubelet is stopping it."""
    budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that select the pod."""
    static: bool = False
    """True for a mirror pod: its kubelet runs it from a file, so the API server cannot evict it."""


class OccupiedNode(NamedTuple):
    """A node with its pods."""

    name: str
    reported: NodeState
    """The node according to its report."""
    state: NodeState
    """The node with its assumed pods."""
    assumed: tuple[PodShape, ...]
    """Pods that are assumed on the node and not in its report."""
    pods: tuple[RunningPod, ...]
    """All pods on the node."""
    unattributed: int = 0
    """Zones with memory that belongs to no listed pod."""
    leaving: tuple[Holdings, ...] = ()
    """Holdings that the report still contains of pods that are gone."""
    nominated: tuple[PodShape, ...] = ()
    """Pods of at least the preemptor's priority that wait for capacity on the node; they come before the preemptor."""
    info: NodeInfo | None = None
    """The node's allocatable, and the requests of all its pods, including assumed ones; None: do not check."""


class Victims(NamedTuple):
    """The pods of one node that must end."""

    node: str
    pods: tuple[RunningPod, ...]
    """Pods, the most important one first: by priority, then by start time. Empty if terminating pods suffice."""
    optimal: bool = True
    """False if the search was cut short. No victim can be spared, but another set of victims may cost less."""
