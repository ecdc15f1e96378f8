"""The planner: what waits and runs, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.plan.values import Step
from zonewise_scheduler.queue.quota.model.workload import DEFAULTS
from zonewise_scheduler.queue.time.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.queue.plan.values import Promise
    from zonewise_scheduler.queue.quota.model.workload import Eviction, Settings, Workload
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot


class Planner:
    """Kept up event by event by the same verbs, live and on the virtual clock; times are seconds of any one clock."""

    def __init__(self, snapshot: Snapshot, rules: Rules, settings: Settings = DEFAULTS) -> None: ...

    def submit(self, workload: Workload, queue: str) -> None:
        """Let a workload wait in a ClusterQueue."""

    def end(self, key: str) -> None:
        """Take note that a running workload has ended, and all its pods are gone; raise KeyError if it does not run."""

    def evict(self, key: str, eviction: Eviction) -> None:
        """Take note that the pods of a running workload are gone; it waits again. Raises KeyError if it does not run."""

    def withdraw(self, key: str) -> None:
        """Forget a waiting workload; raise KeyError if it does not wait."""

    def decide(self, now: float) -> Step:
        """Decide all that can be decided now."""
        return Step()

    @property
    def running(self) -> Mapping[str, Workload]:
        """Those that have an admission, by key."""
        return {}

    @property
    def waiting(self) -> int:
        """How many wait."""
        return 0

    @property
    def promises(self) -> list[Promise]:
        """What is promised, by start."""
        return []
