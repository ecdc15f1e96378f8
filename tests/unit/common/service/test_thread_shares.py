"""Shares of threads: whatever hangs in some groups, the tasks of others begin."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.thread_shares import MEMORY, SLOW, ThreadShares

THREADS = 16


class Task(NamedTuple):
    number: int
    group: str


class Threads:
    """A model of threads that run the tasks of ThreadShares."""

    def __init__(self, threads: int = THREADS) -> None:
        self.shares = ThreadShares[Task](threads, lambda task: task.group)
        self.threads = threads
        self.running: list[Task] = []
        self.ended: list[Task] = []
        self.submitted: list[Task] = []

    def submit(self, group: str, now: float = 0.0) -> bool:
        assert len(self.running) < self.threads
        task = Task(len(self.submitted), group)
        self.submitted.append(task)
        begins = self.shares.begin(task, now)
        if begins:
            self._start(task)
        return begins

    def end(self, index: int, seconds: float, now: float) -> None:
        task = self.running.pop(index % len(self.running))
        self.ended.append(task)
        self.shares.end(task, seconds, now)
        while len(self.running) < self.threads and (parked := self.shares.release(now)):
            self._start(parked)

    def _start(self, task: Task) -> None:
        """Run a task. Before it, its group ran fewer tasks than threads were free."""
        assert self.count(task.group) < self.threads - len(self.running)
        self.running.append(task)

    def run_one(self, *groups: str, seconds: float = 0.0) -> None:
        """Run one task of each group."""
        for group in groups:
            self.submit(group)
            self.end(-1, seconds, 0.0)

    def submit_many(self, group: str, now: float = 0.0) -> int:
        """Submit tasks that hang; return how many of them run."""
        for _ in range(THREADS):
            if len(self.running) < self.threads:
                self.submit(group, now)
        return self.count(group)

    def count(self, group: str) -> int:
        return sum(task.group == group for task in self.running)


def test_a_group_runs_two_tasks_until_one_has_ended() -> None:
    threads = Threads()
    assert threads.submit_many("a") == 2
    threads.end(1, 0.0, now=0.0)
    assert threads.count("a") == THREADS // 2


def test_a_group_occupies_half_of_the_threads_that_others_leave_but_for_the_last_quarter() -> None:
    threads = Threads()
    threads.run_one(*"abcdef")
    assert [threads.submit_many(group) for group in "abcdef"] == [8, 4, 1, 1, 1, 1]


def test_slow_groups_together_occupy_half_of_the_threads() -> None:
    threads = Threads()
    threads.run_one(*"ab", seconds=SLOW + 1)
    threads.run_one("c")
    assert [threads.submit_many(group, now=SLOW / 2) for group in "abc"] == [8, 0, 4]


def test_groups_are_forgotten() -> None:
    threads = Threads()
    threads.run_one("a", seconds=SLOW + 1)
    threads.run_one("b")
    assert threads.submit_many("b", now=SLOW) == 2
    assert [threads.submit("c", now=MEMORY + 1), threads.submit("a", now=MEMORY + 1)] == [True, True]


def test_groups_that_hang_after_a_rest_run_two_tasks() -> None:
    threads = Threads()
    threads.run_one(*"abcd")
    assert [threads.submit_many(group, now=SLOW) for group in "abcd"] == [2] * 4


def test_parked_groups_take_turns() -> None:
    threads = Threads(threads=2)
    threads.run_one(*"ab", seconds=SLOW + 1)
    for group in "aaabbb":
        threads.submit(group)
    while threads.running:
        threads.end(0, 0.0, now=0.0)
    assert "".join(task.group for task in threads.ended[2:]) == "aababb"


@pytest.mark.parametrize(("known", "most"), [(False, 9), (True, 5)])
def test_a_group_begins_while_others_hang_up_to_a_number(*, known: bool, most: int) -> None:
    threads = Threads()
    hanging = [f"hangs-{i}" for i in range(most)]
    threads.run_one(*(hanging if known else ()))
    for group in hanging:
        threads.submit_many(group)
    assert threads.submit("other")


@given(
    threads=st.integers(1, 20),
    known=st.sets(st.integers(0, 19)),
    slow=st.sets(st.integers(0, 19)),
    hanging=st.lists(st.integers(0, 19), max_size=200),
    is_known=st.booleans(),
)
def test_a_group_that_is_not_slow_begins_if_a_thread_is_free(
    threads: int, known: set[int], slow: set[int], hanging: list[int], *, is_known: bool
) -> None:
    """Few groups leave a thread free: each known group leaves about half of the free ones, others leave all but two."""
    model = Threads(threads)
    model.run_one(*(f"hangs-{i}" for i in sorted(known)), *(["other"] if is_known else []))
    model.run_one(*(f"hangs-{i}" for i in sorted(slow)), seconds=SLOW + 1)
    for i in hanging:
        if len(model.running) < threads:
            model.submit(f"hangs-{i}")
    counts = Counter(task.group for task in model.running)
    assert sum(counts[f"hangs-{i}"] for i in slow) <= max(1, threads // 2)
    unknown = set(hanging) - known - slow
    assert all(counts[f"hangs-{i}"] <= 2 for i in unknown)
    if 2 ** len(known | slow) * (2 * len(unknown) + 1) <= threads:
        assert len(model.running) < threads
    if len(model.running) < threads:
        assert model.submit("other")


@given(
    threads=st.integers(1, 9),
    events=st.lists(
        st.tuples(st.sampled_from(["", "a", "b", "c", "end"]), st.integers(0, 8), st.sampled_from([0.0, SLOW + 1]),
                  st.sampled_from([0.0, 1.0, MEMORY])), max_size=60
    ),
)  # fmt: skip
def test_each_task_runs_once_within_the_shares(threads: int, events: list[tuple[str, int, float, float]]) -> None:
    model, now, share = Threads(threads), 0.0, max(1, threads // 2)
    slow_until: dict[str, float] = {}
    for event, index, seconds, passed in events:
        now += passed
        before = list(model.running)
        if event != "end":
            if len(model.running) < threads:
                model.submit(event, now)
        elif model.running:
            group = model.running[index % len(model.running)].group
            slow_until |= {group: now + MEMORY} if seconds > SLOW else {}
            model.end(index, seconds, now)
        counts = Counter(task.group for task in model.running)
        slow = {name for name, until in slow_until.items() if until > now}
        assert len(model.running) <= threads
        if any(task.group in slow for task in model.running if task not in before):
            assert sum(counts[name] for name in slow) <= share
        assert model.running or len(model.submitted) == len(model.ended)
    while model.running:
        model.end(0, 0.0, now)
    assert sorted(model.ended) == model.submitted
