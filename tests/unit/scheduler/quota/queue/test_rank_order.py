"""The kept order of ranks equals a fresh sort after any changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.queue.rank_order import MAX_CHANGES, QueuedRank, RankOrder

QUEUES = ("ns/a", "ns/b", "ns/c")
USAGE = {"ns/a": 1.0, "ns/b": 1.0}


def queued(number: int) -> QueuedRank:
    return QueuedRank(QUEUES[number % 3], (number % 2, 0.0, 0.0, "", f"w{number:02}"))


def sorted_keys(ranks: set[QueuedRank]) -> list[str]:
    return [rank[-1] for _, rank in sorted((USAGE.get(queue, 0.0), rank) for queue, rank in ranks)]


@given(st.sets(st.integers(0, 20)), st.lists(st.tuples(st.integers(0, 20), st.booleans())))
def test_reads_between_changes_show_the_sorted_ranks(first: set[int], changes: list[tuple[int, bool]]) -> None:
    ranks = {queued(number) for number in first}
    order = RankOrder(ranks)
    for number, reads in changes:
        rank = queued(number)
        order.note(rank, added=rank not in ranks)
        ranks ^= {rank}
        if reads:
            assert list(order.keys(USAGE)) == sorted_keys(ranks)
    for rank in ranks:
        assert order.count_before(rank, USAGE) == sorted_keys(ranks).index(rank.rank[-1])


def test_an_order_is_outdated_after_many_changes_without_a_read() -> None:
    order = RankOrder([])
    for i in range(MAX_CHANGES):
        assert not order.is_outdated
        order.note(queued(0), added=not i % 2)
    assert order.is_outdated
    assert not list(order.keys(USAGE))
    assert not order.is_outdated
