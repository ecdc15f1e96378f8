"""The controller's thread answers questions of other threads."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from support.waiting import PATIENCE, eventually, pause
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.backfill.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.controller.controller import QueueController
from zonewise_scheduler.controller.loop import BATCH_TIME, MAX_BATCH_TIME, ControllerLoop, Listing, WriteEnded
from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.outcome import Outcome
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS


def controller_loop() -> ControllerLoop:
    controller = QueueController(PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS), {}, ConfigurationObjects())
    return ControllerLoop(controller, lambda _write: None, lambda: 1.0)


def test_what_a_listing_lacks_is_gone() -> None:
    key = ObjectKey(WORKLOADS, "ns", "w")
    created = {"metadata": {"namespace": "ns", "name": "w", "resourceVersion": "5"}, "spec": {}}
    with controller_loop() as loop:
        loop.put(WriteEnded(Write(Verb.CREATE, key, "create", created), Outcome("done", created)))
        assert loop.call(lambda controller: controller.object(key), PATIENCE) == created
        loop.put(Listing(WORKLOADS, 9))
        assert loop.call(lambda controller: controller.object(key), PATIENCE) is None


def test_a_question_is_answered_in_the_thread_of_the_controller() -> None:
    with controller_loop() as loop:
        assert loop.call(lambda _controller: threading.current_thread().name, PATIENCE) == "controller"
        assert loop.call(lambda controller: dict(controller.feed.state.pending), PATIENCE) == {}


def test_an_error_of_a_question_is_raised_where_it_was_asked() -> None:
    with controller_loop() as loop:
        with pytest.raises(KeyError, match="ns/w"):
            loop.call(lambda controller: controller.feed.state.pending["ns/w"], PATIENCE)
        assert loop.call(lambda _controller: 1, PATIENCE) == 1


def test_a_question_that_is_not_answered_in_time_is_dropped() -> None:
    loop = controller_loop()
    with pytest.raises(TimeoutError, match="not answered"):
        loop.call(lambda _controller: pytest.fail("too late"), 0.0)
    assert loop.inbox_length == 1
    with loop:
        assert loop.call(lambda _controller: 2, PATIENCE) == 2


def steps_between(write_delay: float, messages: int) -> int:
    """Return how many steps the loop takes while messages come one after another."""
    asked: list[float] = []

    def delay() -> float:
        asked.append(write_delay)
        return write_delay

    controller = QueueController(PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS), {}, ConfigurationObjects())
    with ControllerLoop(controller, lambda _write: None, lambda: 1.0, write_delay=delay) as loop:
        for _ in range(messages):
            loop.put(Listing(WORKLOADS, 1))
            pause(BATCH_TIME)
        loop.call(lambda _controller: None, PATIENCE)
    return len(asked)


def test_while_writes_wait_for_their_rate_a_step_takes_more_messages() -> None:
    """One in MAX_BATCH_TIME, and a few at the ends."""
    messages = 50
    begin = time.monotonic()
    steps = steps_between(1.0, messages)
    assert steps <= (time.monotonic() - begin) / MAX_BATCH_TIME + 2
    assert steps < messages / 2


def test_what_the_first_step_has_built_is_searched_by_no_later_collection() -> None:
    gc.unfreeze()
    gc.disable()
    with controller_loop() as loop:
        loop.call(lambda _controller: None, PATIENCE)
        eventually(gc.isenabled)
        assert gc.get_freeze_count() > 0
    gc.unfreeze()
