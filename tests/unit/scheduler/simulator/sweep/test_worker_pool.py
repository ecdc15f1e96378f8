"""Runs in processes: their order, their errors, and their termination."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from typing import TYPE_CHECKING

import pytest

from zonewise_scheduler.simulator.sweep.worker_pool import RunError, RunsInterrupted, run_in_processes

if TYPE_CHECKING:
    from collections.abc import Generator

LONG = 600


def square(item: int) -> int:
    return item * item


def sleep_unless_one(item: int) -> int:
    """Return at once for 1; otherwise run until the process is terminated."""
    if item != 1:
        time.sleep(LONG)
    return item


def raise_at_two(item: int) -> int:
    if item == 2:
        raise ValueError("no such thing")
    return sleep_unless_one(item)


def run_out_of_memory(item: int) -> int:
    raise MemoryError


def exit_at_two(item: int) -> int:
    if item == 2:
        os._exit(9)
    return item


@pytest.mark.parametrize("processes", [1, 3, 20])
def test_results_are_in_the_order_of_the_runs(processes: int) -> None:
    reported: list[int] = []
    assert run_in_processes(square, range(7), processes, reported.append) == [0, 1, 4, 9, 16, 25, 36]
    assert reported == [1, 2, 3, 4, 5, 6, 7]
    assert active_children() == []


def test_an_error_names_its_run_and_ends_the_others() -> None:
    with pytest.raises(RunError, match=r"^2: no such thing$"):
        run_in_processes(raise_at_two, [1, 2, 3], 2, lambda done: None)
    assert active_children() == []


def test_an_error_without_a_text_is_named() -> None:
    with pytest.raises(RunError, match=r"^1: MemoryError\(\)$"):
        run_in_processes(run_out_of_memory, [1], 1, lambda done: None)


def test_a_killed_process_is_an_error() -> None:
    with pytest.raises(RunError, match=r"its process was killed"):
        run_in_processes(exit_at_two, [2, 2], 1, lambda done: None)
    assert active_children() == []


def test_processes_end_with_a_parent_that_is_killed() -> None:
    """They hold the standard output of the parent open until they end."""
    script = f"import time\nfrom {run_in_processes.__module__} import run_in_processes\n"
    script += f"run_in_processes(time.sleep, [0, {LONG}, {LONG}], 2, print)"
    with subprocess.Popen([sys.executable, "-u", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        process.kill()
        assert process.communicate(timeout=60) == ("", None)


@pytest.fixture
def interruptible() -> Generator[None]:
    """Enable SIGINT as in a terminal; processes that a shell starts in the background, such as these, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_reports_the_finished_runs_and_leaves_no_process() -> None:
    def interrupt(done: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(RunsInterrupted, match=r"^1 of 3 runs were done$"):
        run_in_processes(sleep_unless_one, [1, 3, 4], 2, interrupt)
    assert active_children() == []
