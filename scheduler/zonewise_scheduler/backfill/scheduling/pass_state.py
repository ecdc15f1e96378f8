"""The progress of one scheduling pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Victim
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision, Entry, Head
    from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
    from zonewise_scheduler.quota.queue.shape_groups import Rank

MIN_RUN_TIME = 2.0
"""Seconds after its start during which a workload is not preempted, since its pods are not even created yet."""


class SamplePathHead(NamedTuple):
    """The head of a queue in an inexact pass; heads sort in the order in which cycles would decide about them."""

    number: int
    """Number of earlier heads of the queue in this pass."""
    borrows: bool
    priority: int
    """Negated, so that higher priorities sort first."""
    timestamp: float
    queue: str
    due: str
    """Key of the due workload; "" if the head is the first in the order of the queue."""


class PassState:
    """One pass over a planner's state, at state.now."""

    def __init__(self, state: PlannerState, headroom: HeadroomBound) -> None:
        self.state = state
        self.headroom = headroom
        self.sample_path_heads: list[SamplePathHead] = []
        """Heap of the heads of the queues, in an inexact pass."""
        self.queues_without_head = list(state.active_queues)
        """Queues whose next head is not in that heap yet."""
        self.head_counts: Counter[str] = Counter()
        """Number of heads that each queue has had."""
        self.rejected_ranks: Mapping[str, Sequence[Rank]] = {}
        """Ascending ranks, by queue, of shapes that were not activated because they would certainly be rejected
        again."""
        self.cycle = 0
        """The number of the current cycle."""
        self.skipped_queues: set[str] = set()
        """Queues whose head the current cycle skips because it certainly cannot be admitted."""
        self.exhausted_queues: set[str] = set()
        """Queues for which this pass makes no more decisions."""
        self.blocking_entries: list[Entry] = []
        """Waiting heads of exhausted queues that hold quota or a placement in each later cycle."""
        self.due_tries: dict[str, int] = {}
        """Number of admissions in this pass when a due workload was last a head, by its key."""
        self.flavor_scans: dict[str, list[Mapping[str, Mapping[str, int]]]] = {}
        """The last tried flavors of each cycle whose flavor scan the next cycle continues, by workload key."""
        self.deferred_requeues: list[Decision] = []
        """Decisions about workloads that are requeued only when the pass ends."""
        self.postponed: defaultdict[str, list[Head]] = defaultdict(list)
        """Due heads whose starts are too far away to be reserved, by queue."""
        self.without_start: list[Head] = []
        """Due heads for which no start was found."""
        self.rejected: set[str] = set()
        """Keys of the heads that were rejected without a nomination, although they were due or new."""
        self.admitted: list[Workload] = []
        self.placed: list[Workload] = []
        self.victims: list[Victim] = []
        self.reserved: list[str] = []
        """Keys of the workloads that got their first reservation."""
        self.decisions: dict[str, Decision] = {}
        """The last decision about each workload, by key."""

    def record_admission(self, workload: Workload) -> None:
        """Record an admitted workload that is already in the snapshot."""
        state = self.state
        self.admitted.append(workload)
        state.pending.pop(workload.key, None)
        state.must_retry |= workload.key in state.reservations.by_key
        state.reservations.remove_started(workload.key)
        state.running_workloads.add(workload)
        if state.assumed is not None:
            state.assumed.add(workload.key)
            state.young[workload.key] = state.now + MIN_RUN_TIME
            state.snapshot.not_preempted.add(workload.key)
        if state.fair_sharing is not None and state.snapshot.cluster_queue_of(workload).spec.usage_based_admission:
            state.fair_sharing.charge_admission(workload, state.snapshot, state.now)
            state.fair_sharing.update_snapshot(state.snapshot, state.router, [workload.local_queue_key])

    def postpone(self, head: Head) -> None:
        """Record that the start of a due head is too far away to be reserved."""
        self.postponed[head.cluster_queue].append(head)
