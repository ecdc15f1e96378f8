"""The API server is down for two minutes from each write of a scenario on, so nothing is observed.

The controller does not know whether the first write of the outage was carried out, so it repeats the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.controller_stories import ControllerStory, kills
from support.model_cluster import ModelCluster
from support.profiles import share
from support.queue_stories import STORIES
from zonewise_scheduler.controller.writing.outcome import Outcome

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey, Write

Json = dict[str, Any]

OUTAGE = 120
"""Rounds of a scenario, one second each."""


class OutageCluster(ModelCluster):
    """A cluster whose API server is down for a while; its Job controller needs the server too."""

    def __init__(self, begins_at: int, *, is_written: bool, **spec: Any) -> None:
        """Go down at the write of this number, which is carried out only if `is_written`."""
        super().__init__(**spec)
        self._until_outage = begins_at
        self._is_written = is_written
        self._rounds_left = OUTAGE
        self._last_listing: dict[ObjectKey, Json] = {}

    @property
    def is_down(self) -> bool:
        return self._until_outage < 0 < self._rounds_left

    def send(self, write: Write) -> Outcome:
        """Carry out a write, or lose the write or its response."""
        self._until_outage -= 1
        if self._until_outage == -1:
            self._last_listing = super().listed()
            if self._is_written:
                super().send(write)
        return Outcome("unknown", message="connection refused") if self.is_down else super().send(write)

    def listed(self) -> dict[ObjectKey, Json]:
        """Return all objects; during the outage, those that were observed before."""
        return self._last_listing if self.is_down else super().listed()

    def sync_jobs(self) -> bool:
        """Let the Job controller act, except during the outage."""
        if self.is_down:
            self._rounds_left -= 1
            return False
        return super().sync_jobs()


@pytest.mark.parametrize("is_written", [True, False], ids=["response-lost", "request-lost"])
@pytest.mark.parametrize(
    "name", ["run and end", "preempt and resume", "hold, drain and release", "change while held", "pods do not recover"]
)
def test_a_scenario_continues_after_an_outage(name: str, is_written: bool) -> None:
    """By default, every other write loses its request, and the others their response."""
    play, spec = STORIES[name]
    for writes in share(kills(play, lambda: ModelCluster(**spec)), 2, first=int(is_written)):
        play(ControllerStory(OutageCluster(writes, is_written=is_written, **spec)))
