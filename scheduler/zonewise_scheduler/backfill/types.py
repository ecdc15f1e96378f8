"""The values that the planner holds and decides; times are seconds of any one clock."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

StopReason = Literal["Deactivated", "AdmissionCheck", "LocalQueueStopped", "ClusterQueueStopped", "NodeFailures"]
"""Reasons of the condition Evicted, other than Preempted (apis/kueue/v1beta2/workload_types.go)."""

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision, Head
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionReason


class Victim(NamedTuple):
    """A running workload that must stop because another preempts it."""

    workload: Workload
    preemptor: Workload
    reason: PreemptionReason


class StopOrder(NamedTuple):
    """A running workload that must stop although no other preempts it."""

    workload: Workload
    reason: StopReason


class StartInterval(NamedTuple):
    """All starts between two times, in seconds, both included."""

    first: float
    last: float


ANY_START = (StartInterval(-inf, inf),)


class Reservation(NamedTuple):
    """A start held for a pending workload."""

    workload: Workload
    """The workload with its future admission: its flavors, and a topology assignment if it has a topology."""
    head: Head
    """The pending workload."""
    start: float
    """The workload starts at this time or earlier if running workloads end within their walltimes.

    Infinite if workloads without a walltime must end first.
    """
    waits_for: tuple[str, ...] = ()
    """Keys of the workloads that end exactly at the start; they are running or hold an earlier reservation."""
    victims: tuple[Workload, ...] = ()
    """Workloads that it preempts or replaces at its start if they still run."""

    @property
    def preempts(self) -> tuple[str, ...]:
        """Return the keys of its victims without the slice that it replaces."""
        return tuple(victim.key for victim in self.victims if victim.key != self.workload.replaces)

    @property
    def queue(self) -> str:
        """Return the ClusterQueue's name."""
        return self.head.cluster_queue

    @property
    def deadline(self) -> float:
        """Return the start plus the walltime."""
        return self.start + self.workload.max_duration


class ReservedStart(NamedTuple):
    """A reservation as shown to others: the key of its workload and its start."""

    key: str
    start: float


class Plan(NamedTuple):
    """The actions to take now: the outcome of one scheduling pass."""

    admitted: tuple[Workload, ...] = ()
    """Workloads that start, with their admissions, in the order of the decisions."""
    victims: tuple[Victim, ...] = ()
    """Across all plans, a workload is a victim or has a stop order only once."""
    stopped: tuple[StopOrder, ...] = ()
    placed: tuple[Workload, ...] = ()
    """Workloads that had quota and now have a topology assignment: their first, or one without a failed node."""
    reserved: tuple[Reservation, ...] = ()
    """Each workload's first reservation."""
    decisions: Mapping[str, Decision] = {}
    """The last decision about each workload that was a head, by key."""
    wake_at: float = inf
    """Time of the next pass if no event comes first."""


class Forecast(NamedTuple):
    """Predicted starts of a pending workload or job, ascending; no decision depends on them.

    Infinite if they depend on unknown run times.
    """

    earliest: float
    likely: float
    latest: float
