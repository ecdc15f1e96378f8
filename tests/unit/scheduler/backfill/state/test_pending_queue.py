"""The pending workloads of a queue: which one is due, compared with a definition that examines every workload."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_workload, queue
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.state.pending_queue import MIN_AGING, PendingQueue
from zonewise_scheduler.backfill.types import Reservation
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.cycle.entry import Head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.workload_types import Workload

POLICIES = [
    BackfillPolicy(),
    BackfillPolicy(depth=2),
    BackfillPolicy(depth=UNLIMITED_DEPTH),
    BackfillPolicy(10.0, 2.0, 1.0, shortest_first=True, age_weight=0.5),
    BackfillPolicy(reserve_after=inf),
    BackfillPolicy(overtaking=False),
]


@st.composite
def waiting(draw: st.DrawFn) -> list[Workload]:
    fields = st.tuples(
        st.integers(-1, 2),
        st.integers(0, 9),
        st.sampled_from([1.0, 4.0, inf]),
        st.sampled_from(["", "", "PodsReadyTimeout", "Preempted"]),
    )
    return [
        replace(
            make_workload(f"w{number}", 1, walltime, at=created_at, priority=priority),
            uid=f"{9 - number}",
            eviction=Eviction(reason, 12.0) if reason else None,
        )
        for number, (priority, created_at, walltime, reason) in enumerate(draw(st.lists(fields, max_size=6)))
    ]


def since(workload: Workload) -> float:
    """Return when the wait begins: at the eviction for a workload whose pods were not ready in time."""
    evicted = workload.eviction is not None and workload.eviction.reason == "PodsReadyTimeout"
    return 12.0 if evicted else workload.created_at


def reservation(workload: Workload, start: float) -> Reservation:
    return Reservation(workload, Head(workload, "q"), start)


def due_by_definition(
    policy: BackfillPolicy,
    workloads: list[Workload],
    now: float,
    reservations: list[Reservation],
    tries: Mapping[str, int],
    admissions: int,
) -> str:
    for reserved in reservations:
        key = reserved.workload.key
        if reserved.start <= now and (key not in tries or tries[key] < admissions):
            return key
    if not policy.reserves or len(reservations) >= policy.depth:
        return ""
    excluded = {reserved.workload.key for reserved in reservations} | tries.keys()
    due = [
        (-workload.priority, since(workload), workload.uid, workload.key)
        for workload in workloads
        if workload.key not in excluded and now >= since(workload) + policy.reserve_age(workload.walltime)
    ]
    return min(due)[-1] if due else ""


def pending(policy: BackfillPolicy, workloads: list[Workload]) -> PendingQueue:
    table = PendingQueue(queue("q", 8), policy, DEFAULT_SETTINGS)
    for workload in workloads:
        table.push_or_update(workload, 0.0)
    return table


@given(
    waiting(),
    st.sampled_from(POLICIES),
    st.integers(0, 20),
    st.dictionaries(st.integers(0, 5), st.integers(0, 20), max_size=3),
    st.dictionaries(st.integers(0, 5), st.integers(0, 2), max_size=3),
    st.integers(0, 2),
)
def test_the_due_workload_is_reserved_or_the_first_that_has_waited_long_enough(
    workloads: list[Workload],
    policy: BackfillPolicy,
    now: int,
    starts: dict[int, int],
    tries_by_number: dict[int, int],
    admissions: int,
) -> None:
    """A reserved workload is due at its start and again after each admission; any other is due only once per pass."""
    reservations = [
        reservation(workloads[number], start) for number, start in starts.items() if number < len(workloads)
    ]
    tries = {f"ns/w{number}": count for number, count in tries_by_number.items()}
    table = pending(policy, workloads)
    copied = table.copy(policy)
    for each in (table, copied):
        assert each.next_due(now, reservations, tries, admissions) == due_by_definition(
            policy, workloads, now, reservations, tries, admissions
        )


@given(waiting(), st.data())
def test_a_workload_that_has_left_is_not_due(workloads: list[Workload], data: st.DataObject) -> None:
    """It may leave before or after it becomes due; the copy does not change with the original."""
    table = pending(BackfillPolicy(), workloads)
    left = list(workloads)
    for now in range(8, 14):
        copied = table.copy(BackfillPolicy())
        before = due_by_definition(BackfillPolicy(), left, now, [], {}, 0)
        if left and data.draw(st.booleans()):
            removed = data.draw(st.sampled_from(left))
            left.remove(removed)
            table.heap.delete(removed.key)
        assert table.next_due(now, [], {}, 0) == due_by_definition(BackfillPolicy(), left, now, [], {}, 0)
        assert copied.next_due(now, [], {}, 0) == before


@given(waiting(), st.data())
def test_stale_entries_are_dropped_and_others_kept(workloads: list[Workload], data: st.DataObject) -> None:
    """The entries of workloads that have left do not accumulate, and each other workload still becomes due."""
    policy = BackfillPolicy(10.0, 2.0, 1.0, shortest_first=True, age_weight=0.5)
    table = pending(policy, workloads)
    for i in range(2 * MIN_AGING):
        passing = make_workload(f"passing{i}", 1, 1e6, at=float(i))
        table.push_or_update(passing, 0.0)
        if workloads and i % 100 == 0:  # a new state leads to another entry
            table.push_or_update(data.draw(st.sampled_from(workloads)), 0.0)
        table.heap.delete(passing.key)
        table.drop_stale()
        assert len(table._aging) <= MIN_AGING  # pyright: ignore[reportPrivateUsage]
    tries: dict[str, int] = {}
    while key := table.next_due(1000.0, [], tries, 0):
        assert key == due_by_definition(policy, workloads, 1000.0, [], tries, 0)
        tries[key] = 0
    assert not due_by_definition(policy, workloads, 1000.0, [], tries, 0)


def test_a_due_workload_without_a_reservation_is_due_again_after_the_pass() -> None:
    """It is due in queue order. Until then others are due, unless no other workload may get a reservation."""
    one, two = make_workload("one", 1), make_workload("two", 1)
    table = pending(BackfillPolicy(), [one, two])
    assert table.next_due(0, [], {}, 0) == "ns/one"
    assert table.next_due(0, [], {"ns/one": 0}, 0, may_reserve=False) == ""
    assert table.next_due(0, [], {"ns/one": 0}, 0) == "ns/two"
    table.make_due(one)
    assert table.next_due(0, [], {}, 0) == "ns/one"


def test_a_workload_whose_reserved_start_has_come_is_due_in_any_case() -> None:
    one = make_workload("one", 1)
    table = pending(BackfillPolicy(), [one])
    assert table.next_due(5.0, [reservation(one, 5.0)], {}, 0, may_reserve=False) == "ns/one"


def test_a_copy_may_have_another_depth() -> None:
    one, two = make_workload("one", 1), make_workload("two", 1)
    table = pending(BackfillPolicy(depth=1), [one, two])
    assert table.copy(BackfillPolicy(depth=2)).next_due(0, [reservation(one, 5.0)], {}, 0) == "ns/two"
    assert table.next_due(0, [reservation(one, 5.0)], {}, 0) == ""


@pytest.mark.parametrize("requeue_from_eviction", [True, False])
def test_the_pods_ready_timeout_counts_according_to_the_setting(requeue_from_eviction: bool) -> None:
    settings = DEFAULT_SETTINGS._replace(requeue_from_eviction=requeue_from_eviction)
    table = PendingQueue(queue("q", 8), BackfillPolicy(), settings)
    table.push_or_update(replace(make_workload("one", 1), eviction=Eviction("PodsReadyTimeout", 12.0)), 0.0)
    assert table.next_due(11.0, [], {}, 0) == ("" if requeue_from_eviction else "ns/one")
    assert table.next_due(12.0, [], {}, 0) == "ns/one"


@pytest.mark.parametrize("overtaking", [True, False])
@pytest.mark.parametrize("of_queue", ["StrictFIFO", "BestEffortFIFO"])
def test_the_queueing_strategy_or_the_policy_makes_a_queue_strict(overtaking: bool, of_queue: str) -> None:
    spec = queue("q", 8)._replace(queueing_strategy="StrictFIFO" if of_queue == "StrictFIFO" else "BestEffortFIFO")
    table = PendingQueue(spec, BackfillPolicy(overtaking=overtaking), DEFAULT_SETTINGS)
    assert table.strict == (of_queue == "StrictFIFO" or not overtaking)


@pytest.mark.parametrize("now", [0, 5])
def test_a_lowered_priority_changes_which_workload_is_due(now: int) -> None:
    """The priority may be lowered before or after a pass has found the workload due."""
    lowered, other = make_workload("lowered", 1, priority=5), make_workload("other", 1, priority=3)
    table = pending(BackfillPolicy(reserve_after=5.0), [lowered, other])
    table.next_due(now, [], {}, 0)
    table.push_or_update(replace(lowered, priority=0), 0.0)
    assert table.next_due(5, [], {}, 0) == "ns/other"
    assert table.next_due(5, [], {"ns/other": 0}, 0) == "ns/lowered"


def test_workloads_without_a_start_are_retried_in_rotation() -> None:
    """Each call retries at most three, so that workloads that can never start do not displace others."""
    workloads = [make_workload(f"w{number}", 1) for number in range(4)]
    table = pending(BackfillPolicy(), workloads)

    def due() -> list[str]:
        """Return the due workloads of one pass, for none of which a start is found."""
        keys: list[str] = []
        while key := table.next_due(0, [], dict.fromkeys(keys, 0), 0):
            keys.append(key)
        for key in keys:
            table.keep_without_start(workloads[int(key[-1])])
        return keys

    assert due() == ["ns/w0", "ns/w1", "ns/w2", "ns/w3"]
    assert due() == []
    assert table.retry_without_start()
    assert due() == ["ns/w0", "ns/w1", "ns/w2"]
    assert table.retry_without_start()
    assert due() == ["ns/w0", "ns/w1", "ns/w3"]
    assert not pending(BackfillPolicy(), workloads).retry_without_start()


def test_a_workload_without_a_start_blocks_the_later_ones_of_a_strict_queue() -> None:
    """It blocks no earlier one, and none once it has been deleted."""
    first, second, third = (make_workload(f"w{number}", 1, at=number) for number in range(3))
    policy, spec = BackfillPolicy(), queue("q", 4)._replace(queueing_strategy="StrictFIFO")
    table = PendingQueue(spec, policy, DEFAULT_SETTINGS)
    for workload in (first, second, third):
        table.push_or_update(workload, 0.0)
    table.keep_without_start(second)
    assert table.next_due(9, [], {}, 0) == "ns/w0"
    table.remove_due({"ns/w0", "ns/w1"})
    assert table.next_due(9, [], {}, 0) == ""
    table.heap.delete("ns/w1")
    assert table.next_due(9, [], {}, 0) == "ns/w2"
