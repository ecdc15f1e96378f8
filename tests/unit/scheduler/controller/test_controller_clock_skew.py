"""The controller is killed after every write of a scenario; the clock of its successor is an hour ahead or behind.

By default, it is ahead after every other write, and behind after the others.
Readiness limits are off: like Kueue's, they compare times of the previous leader with the clock of the next one.
"""

from __future__ import annotations

import pytest

from support.controller_stories import ControllerStory, kills
from support.model_cluster import ModelCluster
from support.profiles import share
from support.queue_stories import STORIES
from zonewise_scheduler.controller.controller import ControllerOptions

HOUR = 3600.0
LIMITED = ("pods not ready in time", "pods do not recover", "execution time is exceeded")
"""Scenarios of time limits."""


@pytest.mark.parametrize("skew", [HOUR, -HOUR], ids=["ahead", "behind"])
@pytest.mark.parametrize("name", [name for name in STORIES if name not in LIMITED])
def test_a_scenario_completes_even_if_the_next_controller_has_another_clock(name: str, skew: float) -> None:
    play, spec = STORIES[name]

    def cluster() -> ModelCluster:
        return ModelCluster(**spec)

    for writes in share(kills(play, cluster), 2, first=int(skew < 0)):
        play(ControllerStory(cluster(), writes, skew=skew, options=ControllerOptions()))
