"""Two controllers lead at once, which can happen for a moment: the conditions of their writes prevent damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.controller_stories import ControllerStory
from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from support.profiles import share
from support.queue_stories import STORIES

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write


@pytest.mark.parametrize("name", STORIES)
def test_two_leaders_do_no_harm(name: str) -> None:
    """Both decide on what they have observed and write; one of two writes of the same object fails."""
    play, spec = STORIES[name]
    play(ControllerStory(ModelCluster(**spec), leaders=2))


@pytest.mark.parametrize("name", ["preempt and resume", "hold, drain and release", "change while held"])
def test_a_leader_that_wakes_late_does_no_harm(name: str) -> None:
    """It observes before one write of its successor, is suspended, and writes its decisions before a later one.

    By default, it wakes before every other one of the later writes.
    """
    writes = play_with_sleeper(name, -1, -1)
    for observes_at in range(writes):
        for wakes_at in share(range(observes_at + 1, writes), 2):
            play_with_sleeper(name, observes_at, wakes_at)


def play_with_sleeper(name: str, observes_at: int, wakes_at: int) -> int:
    """Run a scenario and return the number of its leader's writes."""
    sleepers: list[LiveQueue] = []

    def sleep_or_act(story: ControllerStory, _write: Write, number: int) -> None:
        if number == observes_at and not sleepers:
            sleeper = LiveQueue(story.cluster.listed, story.cluster.send, now=lambda: story.now)
            sleeper.observe()
            sleepers.append(sleeper)
        elif number == wakes_at and sleepers and not sleepers[0].writes:
            sleepers[0].act()

    play, spec = STORIES[name]
    story = ControllerStory(ModelCluster(**spec), before_write=sleep_or_act)
    play(story)
    return story.total_writes()
