"""What the planner holds and decides, as values; times are seconds of any one clock."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

StopReason = Literal["Deactivated", "AdmissionCheck", "LocalQueueStopped", "ClusterQueueStopped", "NodeFailures"]
"""Reasons of the condition Evicted, beside Preempted (apis/kueue/v1beta2/workload_types.go)."""

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision, Head
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionReason


class Victim(NamedTuple):
    """A running workload that is to stop, since another preempts it."""

    workload: Workload
    preemptor: Workload
    reason: PreemptionReason


class StopOrder(NamedTuple):
    """A running workload that is to stop, though no other preempts it."""

    workload: Workload
    reason: StopReason


class Reservation(NamedTuple):
    """A start held for a pending workload."""

    workload: Workload
    """With the admission that it will have: its flavors, and its topology assignment if it has a topology."""
    head: Head
    """The pending workload."""
    start: float
    """It starts at this time or earlier, if running workloads keep their walltimes.

    Infinite where workloads without a walltime must end first.
    """
    waits_for: tuple[str, ...] = ()
    """Keys of the workloads that end right at the start; they run, or hold an earlier reservation."""
    victims: tuple[Workload, ...] = ()
    """The workload preempts these at its start, if they still run."""

    @property
    def queue(self) -> str:
        """Return the ClusterQueue's name."""
        return self.head.cluster_queue

    @property
    def deadline(self) -> float:
        """Return the start plus the walltime."""
        return self.start + self.workload.max_duration


class ReservedStart(NamedTuple):
    """A reservation as others are told of it."""

    key: str
    start: float


class Plan(NamedTuple):
    """What is to happen now: the outcome of one scheduling pass."""

    admitted: tuple[Workload, ...] = ()
    """Workloads that start, with their admissions, in the order of the decisions."""
    victims: tuple[Victim, ...] = ()
    """A workload is a victim, or has a stop order, once in all plans."""
    stopped: tuple[StopOrder, ...] = ()
    placed: tuple[Workload, ...] = ()
    """Workloads that had quota and now have a topology assignment: their first, or one without a failed node."""
    reserved: tuple[Reservation, ...] = ()
    """Each workload's first reservation."""
    decisions: Mapping[str, Decision] = {}
    """The last decision about each workload that was a head, by key."""
    wake_at: float = inf
    """When the next pass is due, if nothing happens before."""


class Forecast(NamedTuple):
    """Predicted starts of a pending workload or job, ascending; no decision depends on them.

    Infinite where they depend on unknown run times.
    """

    earliest: float
    likely: float
    latest: float
