"""Shares of threads: a group, and all slow groups together, leave half of the threads to others."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.thread_shares import SLOW, SLOW_MEMORY, ThreadShares

THREADS = 8
SHARE = THREADS // 2


class Task(NamedTuple):
    number: int
    group: str


class Threads:
    """A model of threads that run the tasks of ThreadShares."""

    def __init__(self, threads: int = THREADS) -> None:
        self.shares = ThreadShares[Task](threads, lambda task: task.group)
        self.running: list[Task] = []
        self.ended: list[Task] = []
        self.submitted: list[Task] = []

    def submit(self, group: str, now: float = 0.0) -> bool:
        task = Task(len(self.submitted), group)
        self.submitted.append(task)
        begins = self.shares.begin(task, now)
        self.running += [task] if begins else []
        return begins

    def end(self, index: int, seconds: float, now: float) -> None:
        task = self.running.pop(index % len(self.running))
        self.ended.append(task)
        parked = self.shares.end(task, seconds, now)
        self.running += [] if parked is None else [parked]


def test_a_group_occupies_half_of_the_threads() -> None:
    threads = Threads()
    assert [threads.submit("a") for _ in range(SHARE + 1)] == [True] * SHARE + [False]
    assert threads.submit("b")


def with_slow_groups(threads: int = THREADS) -> Threads:
    model = Threads(threads)
    for group in ("a", "b"):
        model.submit(group)
        model.end(-1, SLOW + 1.0, now=0.0)
    return model


def test_slow_groups_together_occupy_half_of_the_threads() -> None:
    threads = with_slow_groups()
    assert [threads.submit(group, now=1.0) for group in ("a", "b") * 3] == [True] * SHARE + [False] * 2
    assert [threads.submit("c", now=1.0) for _ in range(SHARE)] == [True] * SHARE


def test_a_slow_group_is_forgotten() -> None:
    threads = with_slow_groups()
    assert all(threads.submit(group, now=SLOW_MEMORY) for group in ("a", "b") * SHARE)


def test_parked_groups_take_turns() -> None:
    threads = with_slow_groups(threads=2)
    for group in "aaabbb":
        threads.submit(group)
    while threads.running:
        threads.end(0, 0.0, now=0.0)
    assert "".join(task.group for task in threads.ended[2:]) == "aababb"


@given(
    threads=st.integers(1, 9),
    events=st.lists(
        st.tuples(st.sampled_from(["", "a", "b", "c", "end"]), st.integers(0, 8), st.sampled_from([0.0, SLOW + 1]),
                  st.sampled_from([0.0, 1.0, SLOW_MEMORY])), max_size=60
    ),
)  # fmt: skip
def test_each_task_runs_once_within_the_shares(threads: int, events: list[tuple[str, int, float, float]]) -> None:
    model, now, share = Threads(threads), 0.0, max(1, threads // 2)
    slow_until: dict[str, float] = {}
    for event, index, seconds, passed in events:
        now += passed
        before = list(model.running)
        if event != "end":
            model.submit(event, now)
        elif model.running:
            group = model.running[index % len(model.running)].group
            model.end(index, seconds, now)
            slow_until |= {group: now + SLOW_MEMORY} if seconds > SLOW else {}
        counts = Counter(task.group for task in model.running)
        assert max(counts.values(), default=0) <= share
        if began := [task for task in model.running if task not in before]:
            slow = {name for name, until in slow_until.items() if until > now}
            assert began[0].group not in slow or sum(counts[name] for name in slow) <= share
        is_parked = len(model.submitted) > len(model.ended) + len(model.running)
        assert model.running or not is_parked
    while model.running:
        model.end(0, 0.0, now)
    assert sorted(model.ended) == model.submitted
