"""Executes runs in separate processes; results are in the order of the runs, whichever ends first."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from concurrent.futures import Future
    from multiprocessing.process import BaseProcess

Item = TypeVar("Item")
Result = TypeVar("Result")


class RunError(Exception):
    """A run failed; the message names the run."""


class RunsInterrupted(Exception):
    """An interrupt ended the runs before all were done."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"{done} of {total} runs were done")


def run_in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int, progress: Callable[[int], object]
) -> list[Result]:
    """Return the result of each item. `function` and the items must be picklable.

    `progress` is called with the number of finished runs. Raises RunError for the first run that fails, and
    RunsInterrupted after SIGINT; no process is left behind, even if this one is killed.
    """
    context = get_context("spawn")  # a fork would copy the locks of other threads
    executor = ProcessPoolExecutor(min(processes, len(items)), context, _watch_parent)
    futures: dict[Future[Result], Item] = {}
    others = set(active_children())
    done = 0
    try:
        with _interrupts_held_back():
            futures = {executor.submit(function, item): item for item in items}
        for future in as_completed(futures):
            _check(future, futures[future])
            done += 1
            progress(done)
        return [future.result() for future in futures]
    except KeyboardInterrupt:
        raise RunsInterrupted(done, len(items)) from None
    finally:
        _stop(executor, set(active_children()) - others if done < len(items) else ())


@contextmanager
def _interrupts_held_back() -> Generator[None]:
    """Hold SIGINT back in this block, and permanently in the processes that it starts, which this process ends.

    The child processes inherit the mask. It does not protect this process, since threads of libraries may receive the
    signal.
    """
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if held:
        raise KeyboardInterrupt


def _watch_parent() -> None:
    """End this process once its parent has ended: one that was killed ends no workers, and they await runs forever."""
    Thread(target=_end_after_parent, daemon=True).start()


def _end_after_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _check(future: Future[Result], item: object) -> None:
    try:
        future.result()
    except BrokenProcessPool as error:
        raise RunError(f"{item}, or a run beside it: its process was killed") from error
    except Exception as error:
        raise RunError(f"{item}: {str(error) or repr(error)}") from error  # MemoryError has no text


def _stop(executor: ProcessPoolExecutor, workers: Iterable[BaseProcess]) -> None:
    """Terminate these workers at once, and let the others finish their runs; return when all have ended."""
    for worker in workers:
        worker.terminate()
    executor.shutdown(cancel_futures=True)
