"""The heads, entries and decisions of a cycle, and the interface to reservations (pkg/scheduler/scheduler.go entry)."""

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
"""Statuses that need an explanation:

- deferred: the workload fits once the preemptions under way have finished.
- skipped: an earlier entry of the cycle has used what the workload needs.
- evicted: one of its nodes is unhealthy and its pods have no other placement.
"""

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
"""Why a workload is requeued (pkg/cache/queue/cluster_queue.go RequeueReason); Reserved is our addition."""

QuotaReservedReason = Literal[
    "Suspended",
    "Misconfigured",
    "PendingEvaluation",
    "WaitingForPreemptedWorkloads",
    "AdmissionGated",
    "NodeFailures",
    "Reserved",
]
"""Reasons of the condition QuotaReserved=False or Evicted, besides NoFitReason (apis/kueue/v1beta2/workload_types.go).

Reserved is our addition: the workload fits, but would delay a reservation.
"""


class ReservationGate(Protocol):
    """Prevents the start of workloads that would delay a reservation."""

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:
        """Return the key of a workload whose reservation this start would delay; "" if there is none.

        `workload` has its admission; `victims` are the workloads preempted for it.
        """
        ...

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Record that a workload starts."""
        ...


class NoReservations:
    """A gate without reservations."""

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:  # noqa: ARG002 -- none
        """Return "", since there are no reservations."""
        return ""

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Do nothing."""


class Head(NamedTuple):
    """The workload of a queue about which a cycle decides."""

    workload: Workload
    """A workload with an admission is running in the snapshot, and is a head again for its placement
    (needs_second_pass)."""
    cluster_queue: str
    """Name of the ClusterQueue."""
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    inadmissible_reason: Literal["", "checks", "namespace"] = ""
    """Why it is not admitted regardless of quota: failed admission checks, or its namespace; "" if it may be."""


class Decision(NamedTuple):
    """The decision of a cycle about a head."""

    head: Head
    status: EntryStatus
    workload: Workload
    """The head's workload, including its admission if it is admitted."""
    assignment: Assignment | None = None
    preemption_targets: tuple[Target, ...] = ()
    """The workloads to preempt now."""
    reason: NoFitReason | QuotaReservedReason = ""
    message: str = ""
    requeue_reason: RequeueReason = ""
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    """The position at which its next flavor scan starts."""
    delayed_reservation: str = ""
    """Key of the workload whose reservation it would delay."""
    replaced: Workload | None = None
    """The running slice of the same job that ends once the head is admitted."""
    holds_quota: bool = False
    """Whether a waiting head holds quota, so that its cohort does not borrow it."""

    @property
    def replaced_slices(self) -> tuple[Workload, ...]:
        """The running slice that ends once the head is admitted, if there is one."""
        return () if self.replaced is None else (self.replaced,)


@dataclass
class Entry:
    """A head during its cycle."""

    head: Head
    cq: ClusterQueueSnapshot
    assignment: Assignment
    preemption_targets: tuple[Target, ...] = ()
    last_assignment: AssignmentClusterQueueState = NO_LAST_ASSIGNMENT
    replaced: Workload | None = None
    """The running slice of the same job that ends once this workload is admitted."""
    decision: Decision | None = None
    with_admission: Workload | None = None
    """The workload with the admission from this assignment; None if it has not been created yet."""

    @property
    def root(self) -> ResourceNode:
        """The root of its queue's tree; the queue itself if it is in no cohort."""
        return self.cq.root or self.cq

    @property
    def assignment_usage(self) -> Usage:
        """The usage that an admission adds to that of a replaced slice.

        It is empty if the workload has its quota and lacks only its placement. A smaller slice adds nothing, and what
        it frees is available after the cycle.
        """
        if self.head.workload.admission is not None:
            return {}
        usage = self.assignment.usage
        return usage if self.replaced is None else {key: max(0, amount) for key, amount in usage.items()}

    @property
    def victims(self) -> list[Workload]:
        """The workloads to preempt for it."""
        return [target.workload for target in self.preemption_targets]

    @property
    def ending(self) -> list[Workload]:
        """The workloads that end for it: its victims, and the slice that it replaces."""
        return self.victims if self.replaced is None else [*self.victims, self.replaced]

    @property
    def held(self) -> Workload:
        """What the workload has before its admission: the replaced slice, or its own quota, if any."""
        return self.replaced or self.head.workload

    def decide(
        self,
        status: EntryStatus,
        reason: NoFitReason | QuotaReservedReason = "",
        requeue_reason: RequeueReason = "",
        message: str = "",
        delayed_reservation: str = "",
        *,
        holds_quota: bool = False,
    ) -> None:
        """Record the decision. After a preemption, the next scan starts from the first flavor."""
        restart_scan = status in {"preempting", "deferred", "gated"}
        self.decision = Decision(
            self.head,
            status,
            self.head.workload,
            self.assignment,
            self.preemption_targets if status == "preempting" else (),
            reason,
            message,
            requeue_reason,
            NO_LAST_ASSIGNMENT if restart_scan else self.last_assignment,
            delayed_reservation,
            self.replaced,
            holds_quota,
        )
