"""NVML in its own thread: changes wake the loop, which never waits for NVML."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING

from support.waiting import eventually
from zonewise.daemon.nvml_events import parse_event, watch_nvml_events
from zonewise.daemon.nvml_watch import NvmlWatch
from zonewise.health.types import GPU, DeviceEvent, DeviceId
from zonewise.machine.nvml.facts import NvmlFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

EVENT = DeviceEvent("xid", DeviceId(GPU, "0000:3b:00.0"), None, 79, "XID 79", "nvml-events")


def test_facts_and_events_wake_the_loop_until_it_is_closed() -> None:
    wakes = threading.Semaphore(0)
    queries = iter([NvmlFacts(driver_version="1"), NvmlFacts(driver_version="2")])

    def events(report: Callable[[DeviceEvent], None], stopped: threading.Event) -> None:
        report(EVENT)
        stopped.wait()
        report(EVENT)  # too late

    watch = NvmlWatch(
        lambda: next(queries, NvmlFacts(driver_version="2")), 3600.0, wakes.release, events, min_interval=0.0
    )
    assert watch.facts is None
    watch.start()
    watch.start()
    eventually(lambda: watch.facts == NvmlFacts(driver_version="1"))
    assert wakes.acquire(timeout=60)
    assert wakes.acquire(timeout=60)
    assert (watch.take_events(), watch.take_events()) == ([EVENT], [])
    watch.query_soon()
    assert wakes.acquire(timeout=60)
    assert watch.facts == NvmlFacts(driver_version="2")
    watch.close()
    assert not wakes.acquire(blocking=False)


def test_a_flood_of_events_causes_few_queries() -> None:
    starts: list[float] = []
    watch = NvmlWatch(lambda: _record_start(starts), 3600.0, lambda: None, min_interval=0.05)
    watch.start()
    eventually(lambda: _request_query(watch) and len(starts) >= 4)
    watch.close()
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert min(gaps) >= 0.04  # a query records its start a moment after the watch does


def test_a_query_that_raises_makes_the_facts_unknown() -> None:
    results = iter([NvmlFacts(driver_version="1")])
    watch = NvmlWatch(lambda: next(results), 3600.0, lambda: None, min_interval=0.0)
    watch.start()
    eventually(lambda: watch.facts == NvmlFacts(driver_version="1"))
    watch.query_soon()
    eventually(lambda: watch.facts is not None and watch.facts.problem is not None)
    watch.close()


def _record_start(starts: list[float]) -> NvmlFacts:
    starts.append(time.monotonic())
    return NvmlFacts()


def _request_query(watch: NvmlWatch) -> bool:
    watch.query_soon()
    return True


@contextlib.contextmanager
def many_open_files() -> Generator[None]:
    """Let the numbers of new files exceed the range of select(2), as many connections to the agent do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while opened[-1] < 1024:
            opened.append(os.dup(opened[0]))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_lines_of_the_child_are_events() -> None:
    """Other output of a library between the lines is ignored; the end of the child does not end the watch."""
    program = "print('0000:3b:00.0 79'); print('a warning'); print('0000:3B:00.0 1', end='')"
    events: list[DeviceEvent] = []
    stopped = threading.Event()

    def report(event: DeviceEvent) -> None:
        events.append(event)
        stopped.set()

    with many_open_files():
        watch_nvml_events(report, stopped, [sys.executable, "-c", program])
    assert events == [EVENT]
    assert parse_event("0000:3b:00.0 x") is None
    assert parse_event("0000:3b:00.0 79 5/0") == EVENT._replace(instance="5/0")
