"""The controller's thread executes functions for other threads."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from support.waiting import PATIENCE, eventually, pause
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.controller.controller import QueueController
from zonewise_scheduler.controller.loop import BATCH_TIME, MAX_BATCH_TIME, ControllerLoop, Listing, WriteEnded
from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.outcome import Outcome
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS


def controller_loop() -> ControllerLoop:
    controller = QueueController(PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS), {}, ConfigurationObjects())
    return ControllerLoop(controller, lambda _write: None, lambda: 1.0)


def test_an_object_that_a_listing_lacks_is_deleted() -> None:
    key = ObjectKey(WORKLOADS, "ns", "w")
    created = {"metadata": {"namespace": "ns", "name": "w", "resourceVersion": "5"}, "spec": {}}
    with controller_loop() as loop:
        loop.put(WriteEnded(Write(Verb.CREATE, key, "create", created), Outcome("done", created)))
        assert loop.call(lambda controller: controller.object(key), PATIENCE) == created
        loop.put(Listing(WORKLOADS, 9))
        assert loop.call(lambda controller: controller.object(key), PATIENCE) is None


def test_a_call_is_executed_in_the_thread_of_the_controller() -> None:
    with controller_loop() as loop:
        assert loop.call(lambda _controller: threading.current_thread().name, PATIENCE) == "controller"
        assert loop.call(lambda controller: dict(controller.feed.state.pending), PATIENCE) == {}


def test_an_error_of_a_call_is_raised_in_the_calling_thread() -> None:
    with controller_loop() as loop:
        with pytest.raises(KeyError, match="ns/w"):
            loop.call(lambda controller: controller.feed.state.pending["ns/w"], PATIENCE)
        assert loop.call(lambda _controller: 1, PATIENCE) == 1


def test_a_call_that_is_not_executed_in_time_is_dropped() -> None:
    loop = controller_loop()
    with pytest.raises(TimeoutError, match="not responded"):
        loop.call(lambda _controller: pytest.fail("too late"), 0.0)
    assert loop.inbox_length == 1
    with loop:
        assert loop.call(lambda _controller: 2, PATIENCE) == 2


def steps_between(write_delay: float, messages: int) -> int:
    """Return how many steps the loop makes while messages arrive one after another."""
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


def test_a_step_handles_more_messages_while_writes_wait_for_their_rate() -> None:
    """There is one step per MAX_BATCH_TIME, plus a few at the beginning and the end."""
    messages = 300
    begin = time.monotonic()
    steps = steps_between(1.0, messages)
    assert steps <= (time.monotonic() - begin) / MAX_BATCH_TIME + 2
    assert steps < messages / 2


def test_objects_built_by_the_first_step_are_exempt_from_later_garbage_collections() -> None:
    gc.unfreeze()
    gc.disable()
    with controller_loop() as loop:
        loop.call(lambda _controller: None, PATIENCE)
        eventually(gc.isenabled)
        assert gc.get_freeze_count() > 0
    gc.unfreeze()
