"""An explanation: why a workload or a job of a pool waits, as a value. message.py formats it as a sentence."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.types import ReservedStart
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure

LimitKind = Literal["nominal", "borrowing", "cohort"]
"""Kind of limit: nominal quota of a ClusterQueue without a cohort, borrowingLimit of a ClusterQueue or Cohort, whole
quota of a cohort tree."""


class QuotaShortage(NamedTuple):
    """A shortage of one resource of one flavor; all quantities are amounts."""

    flavor: str
    resource: str
    requested: int
    available: int
    """Amount that the ClusterQueue can use now."""
    limit_kind: LimitKind
    """Kind of the limit that applies."""
    limiting_node: str
    """ClusterQueue or Cohort that has the limit."""
    limit_amount: int
    """Size of the whole limit."""
    not_lent: int = 0
    """Amount that other queues of the tree have available but do not lend."""
    exceeds_max_quota: bool = False
    """Whether the request exceeds even what would be `available` if nothing were used."""


class UnsuitableFlavor(NamedTuple):
    """A flavor that the workload cannot use at all."""

    flavor: str
    """"" for all flavors, or if the reason does not concern a flavor."""
    message: str
    resource: str = ""


class Explanation(NamedTuple):
    """Why a workload does not start now. If no reason is set, the next scheduling pass decides."""

    key: str
    queue: str
    """The ClusterQueue."""
    position: int
    """Position in the order of its queue, starting at 1; 0 if it is in no pending queue."""
    now: float
    """Time of the explanation, in seconds like all times."""
    queue_message: str = ""
    """Clause that explains why its queue cannot admit the workload at all."""
    failed_checks: tuple[str, ...] = ()
    """Names of the admission checks that have failed."""
    begin_at: float = 0.0
    """Its begin time, if that is in the future; 0 if not. Shortages are then set only if it never fits."""
    blocked_by: str = ""
    """Key of a workload that must start first: the head of a StrictFIFO queue, or one that waits for victims."""
    shortages: tuple[QuotaShortage, ...] = ()
    """Shortages of the flavors that were tried, in that order."""
    unsuitable_flavors: tuple[UnsuitableFlavor, ...] = ()
    placement_failure: TopologyPlacementFailure | None = None
    """Why there is no topology assignment although there is quota."""
    device_classes: tuple[tuple[str, str], ...] = ()
    """The resources that limit its placement and that DeviceClasses provide, each with the name of the class."""
    gated: bool = False
    """Whether the workload would have to preempt but its preemption gate is closed."""
    victims: tuple[str, ...] = ()
    """Keys of the workloads that it preempts, or would preempt as a head."""
    delayed_reservation: ReservedStart | None = None
    """Reservation that the workload would delay if it started now, although it fits."""
    replaces: str = ""
    """Key of the running slice of the same elastic job that it replaces; "": there is none."""
    waits_for: tuple[str, ...] = ()
    """Keys of the workloads that must end first, by deadline: a minimal set whose end lets it fit.

    If it would only delay a reservation: the workloads that end exactly at its own start.
    """
    start: float = inf
    """Earliest start that delays no reservation if running workloads end within their walltimes; infinite if
    unknown."""
    reserved: bool = False
    """Whether that start is reserved. If not, other workloads may still start first."""
    never_fits: bool = False
    """Whether the workload cannot start even when all others have ended."""
