"""Recordings of the live queue on a model cluster."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.recording.header import RecordingHeader
from zonewise_scheduler.controller.planning.recorder import Recorder

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

START = 1_800_000_000.0
HEADER = RecordingHeader("shortest-reserving", 60.0)
PREEMPTING: Json = {"preemption": {"withinClusterQueue": "LowerPriority"}}
Step = tuple[str, int]
"""An action with a number: of CPUs, or of the affected Job."""

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["submit", "submit", "submit high", "complete", "delete", "wait"]), st.integers(0, 7)),
    max_size=12,
)


class RecordedQueue:
    """A live queue on a model cluster; its controllers append to one recording."""

    def __init__(self, header: RecordingHeader = HEADER) -> None:
        self.file = io.BytesIO()
        self.now = START
        self.cluster = ModelCluster(**PREEMPTING)
        self._header = header
        self._jobs: list[ObjectKey] = []
        self._queue = self._new_queue()

    def restart(self) -> None:
        """Continue with a new controller."""
        self._queue = self._new_queue()
        self._queue.settle()

    def play(self, steps: list[Step]) -> None:
        """Run the steps one after another; the queue settles after each."""
        for what, number in steps:
            self.now += 30
            if what.startswith("submit"):
                priority = what.partition(" ")[2]
                name = f"j{len(self._jobs)}"
                self._jobs.append(self.cluster.submit(name, number + 1, priority=priority, at=int(self.now - START)))
            elif what != "wait" and self._jobs:
                self._end(self._jobs[number % len(self._jobs)], what)
            self._queue.settle(self.cluster.sync_jobs)

    def lines(self) -> list[bytes]:
        """Return the lines of the recording."""
        return self.file.getvalue().splitlines(keepends=True)

    def _end(self, job: ObjectKey, what: str) -> None:
        obj = self.cluster.objects.get(job)
        if obj is None:
            return
        if what == "delete":
            self.cluster.delete(job)
        elif not obj["spec"]["suspend"] and not self.cluster.is_finished(job):
            self.cluster.complete(job)

    def _new_queue(self) -> LiveQueue:
        record = Recorder(self.file, self._header.document()).record
        policy = policy_named(self._header.policy, self._header.reserve_after)
        return LiveQueue(self.cluster.listed, self.cluster.send, now=lambda: self.now, policy=policy, record=record)


def recorded(steps: list[Step]) -> list[bytes]:
    """Return the recording of a story."""
    queue = RecordedQueue()
    queue.play(steps)
    return queue.lines()
