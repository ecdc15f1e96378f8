"""What one scheduling pass has done so far."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Victim
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision, Head
    from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
    from zonewise_scheduler.quota.queue.shape_groups import Rank


class PlayHead(NamedTuple):
    """The head of a queue in a pass that is not exact; sorted by when a cycle would decide about it."""

    number: int
    """How many heads the queue had before, in this pass."""
    borrows: bool
    priority: int
    """Negative."""
    timestamp: float
    queue: str
    due: str
    """The workload that is due; "": the first of the queue's order is the head."""


class PassState:
    """One pass over a planner's state, at state.now."""

    def __init__(self, state: PlannerState, headroom: HeadroomBound) -> None:
        self.state = state
        self.headroom = headroom
        self.play_heads: list[PlayHead] = []
        """A heap of the heads of the queues, in a pass that is not exact."""
        self.queues_without_head = list(state.active_queues)
        """Queues whose next head is not among them yet."""
        self.head_counts: Counter[str] = Counter()
        """By queue: how many heads it has had."""
        self.rejected_ranks: Mapping[str, Sequence[Rank]] = {}
        """By queue, ascending: of shapes that have not become active, since they are certainly rejected again."""
        self.cycle = 0
        """The number of the current cycle."""
        self.skipped_queues: set[str] = set()
        """Queues whose head the current cycle skips, since it certainly cannot be admitted."""
        self.exhausted_queues: set[str] = set()
        """Queues of which this pass decides nothing more."""
        self.due_tries: dict[str, int] = {}
        """By key of each workload that was a head because it was due: how many had been admitted by then."""
        self.flavor_scans: dict[str, list[Mapping[str, Mapping[str, int]]]] = {}
        """By key: the last tried flavors of each cycle whose scan of flavors the next one continues."""
        self.deferred_requeues: list[Decision] = []
        """Decisions about workloads that are queued again only when the pass ends."""
        self.postponed: list[Head] = []
        """Heads that were due, and whose starts are too far away to be reserved."""
        self.admitted: list[Workload] = []
        self.placed: list[Workload] = []
        self.victims: list[Victim] = []
        self.reserved: list[str] = []
        """Keys of the workloads that got their first reservation."""
        self.decisions: dict[str, Decision] = {}
        """The last decision about each workload, by key."""
