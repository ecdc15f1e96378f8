"""Delayed tasks: one of several threads processes each task once it is due."""

from __future__ import annotations

import queue
import threading

from support.waiting import PATIENCE, eventually
from zonewise_common.service.delayed_tasks import DelayedTasks

LONG = 3600.0


def test_tasks_that_are_due_together_go_in_the_order_of_submission() -> None:
    done: queue.Queue[int] = queue.Queue()
    tasks = DelayedTasks(done.put, threads=1, name="test")
    for number in range(50):
        tasks.submit(number)
    with tasks:
        assert [done.get(timeout=PATIENCE) for _ in range(50)] == list(range(50))


def test_a_task_may_be_submitted_again_with_a_delay() -> None:
    done: queue.Queue[int] = queue.Queue()

    def work(attempt: int) -> None:
        done.put(attempt)
        if attempt < 3:
            tasks.submit(attempt + 1, 0.001)

    with DelayedTasks(work, threads=2, name="test") as tasks:
        tasks.submit(0)
        assert [done.get(timeout=PATIENCE) for _ in range(4)] == [0, 1, 2, 3]


def test_a_task_that_is_due_overtakes_one_that_is_not() -> None:
    done: queue.Queue[str] = queue.Queue()
    with DelayedTasks(done.put, threads=1, name="test") as tasks:
        tasks.submit("late", LONG)
        tasks.submit("soon")
        assert done.get(timeout=PATIENCE) == "soon"
    assert done.empty()


def test_threads_work_at_the_same_time() -> None:
    together = threading.Barrier(3)

    def work(_task: int) -> None:
        together.wait(PATIENCE)

    with DelayedTasks(work, threads=2, name="test") as tasks:
        tasks.submit(1)
        tasks.submit(2)
        together.wait(PATIENCE)


def test_a_stop_ends_threads_that_wait() -> None:
    before = threading.active_count()
    with DelayedTasks(print, threads=4, name="test") as tasks:
        tasks.submit("late", LONG)
    eventually(lambda: threading.active_count() <= before)


def test_a_group_that_hangs_leaves_threads_to_others_and_all_of_its_tasks_are_run() -> None:
    release = threading.Event()
    done: queue.Queue[str] = queue.Queue()

    def work(task: str) -> None:
        if task == "hangs":
            release.wait(PATIENCE)
        done.put(task)

    with DelayedTasks(work, threads=4, name="test", group=lambda task: task) as tasks:
        for task in ["hangs"] * 20 + ["other"]:
            tasks.submit(task)
        assert done.get(timeout=PATIENCE) == "other"
        release.set()
        assert [done.get(timeout=PATIENCE) for _ in range(20)] == ["hangs"] * 20


def test_groups_that_hang_for_the_first_time_leave_threads_to_others() -> None:
    release = threading.Event()
    done: queue.Queue[str] = queue.Queue()

    def work(task: str) -> None:
        if task != "other":
            release.wait(PATIENCE)
        done.put(task)

    with DelayedTasks(work, threads=16, name="test", group=lambda task: task) as tasks:
        for task in [*(["a", "b", "c"] * 300), "other"]:
            tasks.submit(task)
        assert done.get(timeout=PATIENCE) == "other"
        release.set()
        assert sorted(done.get(timeout=PATIENCE) for _ in range(900)) == ["a"] * 300 + ["b"] * 300 + ["c"] * 300


def test_a_group_gets_its_threads_once_a_task_has_ended() -> None:
    together = threading.Barrier(4)
    tried: queue.Queue[int] = queue.Queue()

    def work(task: int) -> None:
        tried.put(task)
        if task:
            together.wait(PATIENCE)

    with DelayedTasks(work, threads=6, name="test", group=lambda _task: "a") as tasks:
        for task in range(4):
            tasks.submit(task)
        together.wait(PATIENCE)
    assert tried.qsize() == 4
