"""What a cycle is asked, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT, Assignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.quota.api.workload_types import Usage, Workload
    from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState, NoFitReason
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, ResourceNode
    from zonewise_scheduler.quota.preemption.preemption_context import Target

EntryStatus = Literal["admitted", "preempting", "deferred", "skipped", "gated", "waiting", "inadmissible", "evicted"]
"""deferred: it will fit once preemptions under way are done; skipped: another workload of the cycle took its room;
evicted: a node of its failed, and there is no other."""

RequeueReason = Literal[
    "",
    "NamespaceMismatch",
    "PreemptionGated",
    "PendingPreemption",
    "NoFit",
    "NoCandidates",
    "FailedAfterNomination",
    "Reserved",
]
"""Why a workload is queued again (pkg/cache/queue/cluster_queue.go RequeueReason); Reserved is ours."""

QuotaReservedReason = Literal[
    "Suspended",
    "Misconfigured",
    "PendingEvaluation",
    "WaitingForPreemptedWorkloads",
    "AdmissionGated",
    "NodeFailures",
    "Reserved",
]
"""Reasons of the condition QuotaReserved=False beside those of assignments, or of Evicted (workload_types.go).

Reserved is ours: it fits, but would delay a start that is promised to another.
"""


class ReservationGate(Protocol):
    """Keeps starts that were promised to others."""

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:
        """Return the key of a workload that would be delayed if one with this admission started; "": nobody would.

        `victims`: who gives way to it.
        """
        ...

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Take note that it starts."""
        ...


class NoReservations:
    """Nothing was promised to anybody."""

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:  # noqa: ARG002 -- nobody is asked for
        """Nobody is delayed."""
        return ""

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Nothing follows."""


class Head(NamedTuple):
    """A workload whose turn it is."""

    workload: Workload
    """One that has an admission runs in the snapshot, and is here again for places: see needs_places."""
    cluster_queue: str
    """The ClusterQueue's name."""
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    """Of its last scan of flavors."""
    inadmissible_reason: Literal["", "checks", "namespace"] = ""
    """Why it may not be admitted whatever there is of quota: failed admission checks, or its namespace; "": it may."""


class Decision(NamedTuple):
    """What is decided about a head."""

    head: Head
    status: EntryStatus
    workload: Workload
    """The head's; with its admission, once admitted."""
    assignment: Assignment | None = None
    preemption_targets: tuple[Target, ...] = ()
    """Whom to preempt now."""
    reason: NoFitReason | QuotaReservedReason = ""
    message: str = ""
    requeue_reason: RequeueReason = ""
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    """From which its next scan goes on."""
    delayed_reservation: str = ""
    """The key of the workload whose promised start it would delay."""


@dataclass
class Entry:
    """A head while its cycle runs."""

    head: Head
    cq: ClusterQueueSnapshot
    assignment: Assignment
    preemption_targets: tuple[Target, ...] = ()
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    decision: Decision | None = None

    @property
    def root(self) -> ResourceNode:
        """The root of the tree of its queue; the queue where that is in no cohort."""
        return self.cq.root or self.cq

    @property
    def assignment_usage(self) -> Usage:
        """What it would use more than now: nothing where it has its quota and waits for places."""
        return {} if self.head.workload.admission is not None else self.assignment.usage

    @property
    def victims(self) -> list[Workload]:
        """Who would give way to it."""
        return [one.workload for one in self.preemption_targets]

    def decide(
        self,
        status: EntryStatus,
        reason: NoFitReason | QuotaReservedReason = "",
        requeue_reason: RequeueReason = "",
        message: str = "",
        delayed_reservation: str = "",
    ) -> None:
        """Take note of what is decided; preemption lets the next scan begin anew."""
        anew = status in {"preempting", "deferred", "gated"}
        targets = self.preemption_targets if status == "preempting" else ()
        progress = NO_LAST_ASSIGNMENT if anew else self.last_assignment
        self.decision = Decision(
            self.head,
            status,
            self.head.workload,
            self.assignment,
            targets,
            reason,
            message,
            requeue_reason,
            progress,
            delayed_reservation,
        )
