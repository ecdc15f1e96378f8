"""The queue of keys that workers share."""

from __future__ import annotations

import threading
import time

from support.clock import Clock
from zonewise_sandbox.workqueue import DelayingQueue


def test_a_key_waits_once() -> None:
    queue: DelayingQueue[str] = DelayingQueue(Clock())
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [queue.get(), queue.get()] == ["a", "b"]


def test_only_one_worker_processes_a_key() -> None:
    queue: DelayingQueue[str] = DelayingQueue(Clock())
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.add("b")
    assert queue.get() == "b"
    queue.done("a")
    assert queue.get() == "a"


def test_a_key_comes_at_its_time() -> None:
    clock = Clock(0.0)
    queue: DelayingQueue[str] = DelayingQueue(clock)
    queue.add_at("late", 20.0)
    queue.add_at("early", 10.0)
    queue.add_at("late", 5.0)
    clock.advance(10.0)
    assert [queue.get(), queue.get()] == ["late", "early"]
    clock.advance(10.0)
    queue.add("c")
    assert queue.get() == "c"


def test_a_jump_of_the_clock_ends_a_wait() -> None:
    clock, taken = Clock(0.0), list[str | None]()
    queue: DelayingQueue[str] = DelayingQueue(clock)
    queue.add_at("a", 1000.0)
    worker = threading.Thread(target=lambda: taken.append(queue.get()))
    worker.start()
    clock.advance(1000.0)
    queue.wake()
    worker.join(60.0)
    assert taken == ["a"]
    queue.close()
    assert queue.get() is None


def test_a_fast_clock_shortens_waits() -> None:
    """An hour of a clock that runs 3,600,000 times as fast is a millisecond."""
    begin = time.monotonic()
    queue: DelayingQueue[str] = DelayingQueue(lambda: (time.monotonic() - begin) * 3.6e6, speed=3.6e6)
    queue.add_at("a", 3600.0 * 100)
    assert queue.get() == "a"
    assert time.monotonic() - begin >= 0.1
