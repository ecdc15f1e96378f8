"""Values that go into the choice of victims, and out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.admission.node import NodeState, Resource
    from zonewise_scheduler.admission.pod import PodShape

Budgets = Mapping[str, int]
"""How many pods each PodDisruptionBudget still allows to be disrupted, by "namespace/name"."""


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
    priority: int
    started: float
    """status.startTime in seconds since the epoch."""
    holdings: Holdings | None
    """None: unknown, so the pod is no victim."""
    terminating: bool = False
    """It is deleted, and its kubelet is stopping it."""
    budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that select it."""
    static: bool = False
    """Its kubelet runs it from a file, so the API server cannot evict it (a mirror pod)."""


class OccupiedNode(NamedTuple):
    """A node with its pods."""

    name: str
    reported: NodeState
    """The node by its report."""
    state: NodeState
    """The same with the assumed pods."""
    assumed: tuple[PodShape, ...]
    """Pods that are assumed on the node and not in its report."""
    pods: tuple[RunningPod, ...]
    """All pods on the node."""
    unattributed: int = 0
    """The zones with memory that belongs to no listed pod."""
    leaving: tuple[Holdings, ...] = ()
    """What the report still has of pods that are gone."""
    nominated: tuple[PodShape, ...] = ()
    """Pods of at least the preemptor's priority that wait for room on the node; they come before the preemptor."""
    available: Resource | None = None
    """The node's allocatable less the requests of all its pods, assumed ones included; None: do not check."""


class Victims(NamedTuple):
    """The pods of one node that must end."""

    node: str
    pods: tuple[RunningPod, ...]
    """The most important one first: by priority, then by start time. Empty: pods that end already suffice."""
    optimal: bool = True
    """False: the search was cut short. No victim can be spared, but another set of victims may cost less."""
