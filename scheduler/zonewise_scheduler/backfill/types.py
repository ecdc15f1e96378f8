"""What the plan decides, as values."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

StopReason = Literal["Deactivated", "AdmissionCheck", "LocalQueueStopped", "ClusterQueueStopped", "NodeFailures"]
"""Reasons of the condition Evicted, beside Preempted (workload_types.go)."""

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision, Head
    from zonewise_scheduler.quota.preemption.preemption_context import PreemptionReason


class Victim(NamedTuple):
    """A running workload that is to stop, and whom it makes way for."""

    workload: Workload
    preemptor: Workload
    reason: PreemptionReason


class StopOrder(NamedTuple):
    """A running workload that is to stop, though nobody needs what it has."""

    workload: Workload
    reason: StopReason


class Reservation(NamedTuple):
    """A start that is promised to a waiting workload."""

    workload: Workload
    """With the admission that it will have: its flavors, and its places where its pods are placed."""
    head: Head
    """As it waits."""
    start: float
    """It starts then or earlier, if all that run end by their latest ends; infinite where those did not declare any."""
    waits_for: tuple[str, ...] = ()
    """Keys of those that run, or are promised an earlier start, and must have ended for it at its start."""
    victims: tuple[Workload, ...] = ()
    """Who gives way to it then, if they still run."""

    @property
    def queue(self) -> str:
        """Return the ClusterQueue's name."""
        return self.head.cluster_queue

    @property
    def deadline(self) -> float:
        """Return its latest end."""
        return self.start + self.workload.max_duration


class Plan(NamedTuple):
    """What is to happen now."""

    admitted: tuple[Workload, ...] = ()
    """Those that start, with their admissions, in the order in which they were decided."""
    victims: tuple[Victim, ...] = ()
    """Those that are to give way; none is named twice, in this step or a later one, here or among the stopped."""
    stopped: tuple[StopOrder, ...] = ()
    """Those that are to stop for other reasons."""
    placed: tuple[Workload, ...] = ()
    """Those that had their quota, and have their places now: at last, or others instead of those on a failed node."""
    reserved: tuple[Reservation, ...] = ()
    """Starts that are promised for the first time."""
    decisions: Mapping[str, Decision] = {}
    """The last of each workload that was looked at, by key."""
    wake_at: float = inf
    """When to decide again, should nothing happen before."""
