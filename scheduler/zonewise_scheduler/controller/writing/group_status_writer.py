"""Write the status of NodeFeatureGroups: each once its members have settled, and no more often than agents need it."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from zonewise_common.service.delayed_tasks import DelayedTasks
from zonewise_scheduler.controller.nodes.group_members import SETTLED, GroupMembers
from zonewise_scheduler.controller.writing.outcome import guarded_attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.nodes.group_members import ObservedGroup
    from zonewise_scheduler.controller.nodes.types import TrackedNode
    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

log = logging.getLogger(__name__)

RETRY = 5.0
"""Seconds until the next attempt, after a write has failed or while another replica may write."""


class GroupStatusWriter:
    """Records nodes and groups at any time, and writes while the context is entered."""

    def __init__(
        self,
        client: Client,
        count: Callable[[Write, Outcome], object],
        *,
        may_write: Callable[[], bool],
        settled: float = SETTLED,
    ) -> None:
        """Set the callbacks. `count` gets each attempt, in the writer's thread.

        Nothing is sent while `may_write` returns False. `settled`: seconds from a change to the write.
        """
        self._client = client
        self._count = count
        self._may_write = may_write
        self._settled = settled
        self._lock = threading.Lock()
        self._members = GroupMembers()
        self._scheduled: set[str] = set()
        self._written_at: dict[str, float] = {}
        self._tasks = DelayedTasks(self._write, threads=1, name="group-status")

    def __enter__(self) -> Self:
        self._tasks.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tasks.__exit__()

    def observe_node(self, name: str, node: TrackedNode | None) -> None:
        """Record a Node; None: it was deleted."""
        with self._lock:
            for group in self._members.observe_node(name, None if node is None else node.feature_groups):
                self._schedule(group)

    def observe_group(self, old: ObservedGroup | None, new: ObservedGroup | None) -> None:
        """Record a NodeFeatureGroup before and after a change; None: it does not exist."""
        if (group := new or old) is None:
            return
        with self._lock:
            self._members.observe_group(group.name, new)
            if new is None:
                self._written_at.pop(group.name, None)
            self._schedule(group.name)

    def _schedule(self, group: str, delay: float | None = None) -> None:
        """Write the status of a group later, if it is wrong."""
        if group in self._scheduled or self._members.status_write(group) is None:
            return
        if delay is None:
            passed = time.monotonic() - self._written_at.get(group, float("-inf"))
            delay = max(self._settled, self._members.interval(group) - passed)
        self._scheduled.add(group)
        self._tasks.submit(group, delay)

    def _write(self, group: str) -> None:
        with self._lock:
            self._scheduled.discard(group)
            write = self._members.status_write(group)
            if write is None:
                return
            if not self._may_write():
                self._schedule(group, RETRY)
                return
        outcome = guarded_attempt(self._client, write)
        self._count(write, outcome)
        with self._lock:
            if outcome.result == "done":
                self._written_at[group] = time.monotonic()
                return
            log.log(
                logging.DEBUG if outcome.result == "stale" else logging.WARNING,
                "the status of NodeFeatureGroup %s is not written: %s", group, outcome.message,
            )  # fmt: skip
            self._schedule(group, RETRY)
