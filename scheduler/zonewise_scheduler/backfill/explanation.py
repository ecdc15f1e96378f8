"""An explanation: why a workload or a job of a pool waits, as a value. explain_message.py makes a sentence of it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.types import ReservedStart
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure

LimitKind = Literal["nominal", "borrowing", "cohort"]
"""The nominal quota of a ClusterQueue in no cohort; the borrowingLimit of a ClusterQueue or Cohort; a cohort tree's
whole quota."""


class QuotaShortage(NamedTuple):
    """One resource of one flavor of which there is too little, in amounts."""

    flavor: str
    """"": the resource of a pool."""
    resource: str
    requested: int
    available: int
    """What the ClusterQueue may use of it now."""
    limit_kind: LimitKind
    """The limit that binds."""
    limiting_node: str
    """The ClusterQueue or Cohort of that limit; "": the pool."""
    limit_amount: int
    """The whole limit."""
    not_lent: int = 0
    """What the other queues of the tree have available and do not lend."""
    exceeds_max_quota: bool = False
    """Whether the request exceeds even what would be `available` if nothing were used."""


class UnsuitableFlavor(NamedTuple):
    """A flavor that the workload cannot use at all."""

    flavor: str
    """"": all flavors, or the reason is no flavor."""
    message: str
    resource: str = ""


class Explanation(NamedTuple):
    """Why a workload does not start now. If it names no reason, the next scheduling pass decides."""

    key: str
    queue: str
    """The ClusterQueue; "": a pool."""
    position: int
    """In the order of its queue, from 1 on; 0: it is in no pending queue."""
    now: float
    """The time of the explanation; seconds, as all times."""
    queue_message: str = ""
    """Why its queue admits no such workload at all: a clause."""
    failed_checks: tuple[str, ...] = ()
    """Names of the admission checks that it has failed."""
    blocked_by: str = ""
    """The key of a workload that must start first: the head of a StrictFIFO queue, or one that waits for victims."""
    shortages: tuple[QuotaShortage, ...] = ()
    """Of the flavors that were tried, in their order."""
    unsuitable_flavors: tuple[UnsuitableFlavor, ...] = ()
    placement_failure: TopologyPlacementFailure | None = None
    """There is quota, but no topology assignment."""
    gated: bool = False
    """It would have to preempt, and its preemption gate is closed."""
    victims: tuple[str, ...] = ()
    """Keys of the workloads that it preempts, or would preempt as a head."""
    delayed_reservation: ReservedStart | None = None
    """It fits now, but would delay this reservation."""
    waits_for: tuple[str, ...] = ()
    """Keys of the workloads that must end first, by deadline: a smallest set without which it fits.

    Where it only would delay a reservation: the workloads that end right at its start.
    """
    start: float = inf
    """The earliest start that delays no reservation, if running workloads keep their walltimes. Infinite: unknown."""
    reserved: bool = False
    """Whether that start is reserved. If not, other workloads may still start first."""
    never_fits: bool = False
    """It cannot start even when all other workloads have ended."""
