"""The order in which a cycle decides on its entries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import CPU, KEYS, cpu_queue, pending_workload, running_workload, snapshots
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import Cohort
from zonewise_scheduler.quota.api.workload_types import Eviction, Workload
from zonewise_scheduler.quota.cycle.entry import Entry, Head
from zonewise_scheduler.quota.cycle.entry_iterator import make_iterator
from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, FlavorAssignment, PodSetAssignment
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot, ResourceNode

FAIR = QuotaSettings(fair_sharing=True)
NEW = st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 2), st.integers(0, 2), st.none() | st.integers(0, 2))
"""(has quota, borrowing level, priority, time of creation, time of an eviction)"""


def entry(snapshot: Snapshot, workload: Workload, queue: str, amount: int = 0, borrowing: int = 0) -> Entry:
    flavors = {"cpu": FlavorAssignment("any", FlavorAssignmentMode.FIT, borrowing)}
    assignment = Assignment((PodSetAssignment("main", 1, {"cpu": amount}, flavors),), {CPU: amount})
    return Entry(Head(workload, queue), snapshot.cluster_queues[queue], assignment)


def names(entries: list[Entry], settings: QuotaSettings) -> list[str]:
    return [each.head.workload.name for each in make_iterator(entries, settings)]


@given(new=st.lists(NEW, max_size=6), from_eviction=st.booleans())
def test_the_order_without_fair_sharing(
    *, new: list[tuple[bool, int, int, int, int | None]], from_eviction: bool
) -> None:
    """Entries with quota are first, then the borrowing level, the priority, and the time in the queue decide."""
    snapshot, entries = Snapshot([cpu_queue("q", 9)]), list[Entry]()
    for i, (has_quota, borrowing, priority, created, evicted) in enumerate(new):
        running = running_workload(f"w{i}", "q", CPU, 1, priority, float(created))
        eviction = None if evicted is None else Eviction("PodsReadyTimeout", float(evicted))
        workload = replace(running, admission=running.admission if has_quota else None, eviction=eviction)
        entries.append(entry(snapshot, workload, "q", borrowing=borrowing))
    expected = sorted(
        (
            not has_quota,
            borrowing,
            -priority,
            created if evicted is None or not from_eviction else evicted,
            f"w{i}",
        )
        for i, (has_quota, borrowing, priority, created, evicted) in enumerate(new)
    )
    assert names(entries, QuotaSettings(requeue_from_eviction=from_eviction)) == [key[-1] for key in expected]


@pytest.mark.parametrize(
    ("running", "new", "order"),
    [
        ({}, {"a": (2, 0, 1), "b": (1, 0, 2)}, "ba"),  # the smaller share
        ({}, {"a": (2, 0, 1), "b": (2, 0, 2)}, "ab"),  # with equal shares the older one
        ({}, {"a": (2, 0, 1), "b": (2, 1, 2)}, "ba"),  # with equal shares the higher priority
        ({}, {"a": (2, -1, 1), "b": (2, -2, 0)}, "ab"),
        ({"a": 2}, {"a": (1, 0, 1), "b": (2, 0, 2)}, "ba"),  # usage counts
        ({"a": 2}, {"a": (0, 0, 9), "b": (1, 0, 2)}, "ab"),  # an entry that borrows nothing more is first
        ({}, {"a": (2, 0, 3), "c": (2, 0, 2), "b": (1, 0, 1)}, "bca"),
        ({}, {"alone": (9, 0, 9), "a": (1, 0, 0)}, "*a"),  # tree by tree
    ],
)
def test_the_order_by_shares(running: dict[str, int], new: dict[str, tuple[int, int, int]], order: str) -> None:
    """Each entry has an amount, a priority, and a time of creation."""
    queues = [*(cpu_queue(name, 0) for name in "abc"), cpu_queue("lender", 9), cpu_queue("alone", 9, cohort="")]
    snapshot = Snapshot(queues)
    for name, amount in running.items():
        snapshot.add_workload(running_workload(f"{name}-runs", name, CPU, amount))
    entries = [
        entry(
            snapshot, pending_workload("*" if name == "alone" else name, amount, priority, float(created)), name, amount
        )
        for name, (amount, priority, created) in new.items()
    ]
    assert "".join(names(entries, FAIR)) == order
    assert sum(queue.usage.get(CPU, 0) for queue in snapshot.cluster_queues.values()) == sum(running.values())


def test_the_shares_of_cohorts_are_compared_first() -> None:
    """The queue with the smallest share belongs to the cohort with the largest share."""
    cohorts = [Cohort("root"), Cohort("left", "root"), Cohort("right", "root")]
    homes = {"a": "left", "b": "left", "c": "right"}
    queues = [cpu_queue(name, 0, cohort=cohort) for name, cohort in homes.items()]
    snapshot = Snapshot([*queues, cpu_queue("lender", 9, cohort="root")], cohorts)
    snapshot.add_workload(running_workload("large", "b", CPU, 5))
    entries = [entry(snapshot, pending_workload(name, 1, priority=name == "a"), name, 1) for name in "abc"]
    snapshot.add_workload(running_workload("small", "c", CPU, 2))
    assert "".join(names(entries, FAIR)) == "cab"


def test_shares_include_the_preceding_entries() -> None:
    """Once its first entry has been admitted, a queue is behind another one that has no usage yet."""
    snapshot = Snapshot([cpu_queue("a", 0), cpu_queue("b", 0), cpu_queue("lender", 9)])
    entries = [entry(snapshot, pending_workload(f"{name}{i}", 2, 0, i), name, 2) for i, name in enumerate("aab")]
    order: list[str] = []
    for each in make_iterator(entries, FAIR):
        each.cq.add_usage(each.assignment_usage)
        order.append(each.head.workload.name)
    assert order == ["a0", "b2", "a1"]


def test_entries_of_queues_without_a_cohort_keep_their_order() -> None:
    """They share no quota, so neither their amounts nor their priorities are compared."""
    snapshot = Snapshot([cpu_queue(name, 9, cohort="") for name in "abc"])
    entries = [entry(snapshot, pending_workload(name, 1, ord(name)), name, 9 - i) for i, name in enumerate("bca")]
    assert "".join(names(entries, FAIR)) == "bca"


def fairest(cohort: CohortSnapshot, entries: list[Entry]) -> Entry | None:
    """Return the winner of a cohort, from the shares of its children with each entry (runTournament)."""
    finalists = [fairest(child, entries) for child in cohort.child_cohorts]
    finalists += [each for queue in cohort.child_cqs for each in entries if each.cq is queue]

    def rank(each: Entry) -> tuple[bool, tuple[float, float], int, float]:
        each.cq.add_usage(each.assignment_usage)
        node: ResourceNode = each.cq
        while node.parent is not None and node.parent is not cohort:
            node = node.parent
        share, workload = dominant_resource_share(node), each.head.workload
        each.cq.remove_usage(each.assignment_usage)
        borrows = share.is_borrowing_on(each.assignment_usage)
        return borrows, share.comparison_key, -workload.priority, workload.created_at

    return min((each for each in finalists if each is not None), key=rank, default=None)


_AMOUNTS = st.tuples(*[st.integers(0, 5)] * len(KEYS))


@given(snapshots(), st.lists(st.tuples(st.integers(0, 3), _AMOUNTS, st.integers(0, 2)), max_size=9), st.data())
def test_each_winner_is_the_fairest_remaining_entry(
    snapshot: Snapshot, new: list[tuple[int, tuple[int, ...], int]], data: st.DataObject
) -> None:
    """Shares change after each decision, whether the entry is admitted, waits with some of its usage, or neither."""
    queues = sorted(name for name, node in snapshot.cluster_queues.items() if node.root is not None)
    entries = [
        Entry(
            Head(pending_workload(f"w{i}", sum(amounts), priority, float(i)), (queue := queues[number % len(queues)])),
            snapshot.cluster_queues[queue],
            Assignment((PodSetAssignment("main", 1, {}),), dict(zip(KEYS, amounts, strict=True))),
        )
        for i, (number, amounts, priority) in enumerate(new if queues else ())
    ]
    remaining = list(entries)
    for winner in make_iterator(entries, FAIR):
        assert winner.cq.root is not None
        assert winner is fairest(winner.cq.root, remaining)
        remaining.remove(winner)
        winner.cq.add_usage(
            {key: data.draw(st.integers(0, 1)) * usage for key, usage in winner.assignment_usage.items()}
        )
    assert not remaining
