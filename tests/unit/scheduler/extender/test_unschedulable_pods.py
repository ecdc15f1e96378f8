"""Waiting pods: woken for nodes that changed since they were refused, one a node, less and less often, all of them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import shape_of
from zonewise_scheduler.extender import unschedulable_pods
from zonewise_scheduler.extender.unschedulable_pods import INITIAL_BACKOFF, MAX_BACKOFF, MAX_REQUEUED, UnschedulablePods
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    import pytest

    from zonewise_scheduler.admission.pod import PodShape

SMALL, LARGE = shape_of((1, 0)), shape_of((8, 0))
SHAPES = [shape_of((cpus, 0)) for cpus in range(1, 7)]


def pod(uid: str, shape: PodShape = SMALL) -> PendingPod:
    return PendingPod(uid, "lab", uid, shape)


def those(pods: UnschedulablePods, at: float, *changes: int) -> list[str]:
    """Who is due when nodes for all shapes changed then."""
    return [one.uid for one in pods.pop_due(at, lambda _: sorted(changes))]


def with_pods(*uids: str, revision: int = 5) -> UnschedulablePods:
    pods = UnschedulablePods()
    for uid in uids:
        pods.add(pod(uid), revision)
    pods.recheck_all()
    return pods


def test_only_for_nodes_that_changed_since() -> None:
    """A node that has not changed since it refused a pod wakes nobody."""
    assert those(with_pods("a"), 0, 5) == []
    assert those(with_pods("a"), 0, 6) == ["a"]


def test_only_after_news() -> None:
    """Without news nobody is looked at, and no node is asked about."""
    pods = UnschedulablePods()
    pods.add(pod("a"), 0)
    assert those(pods, 0, 9) == []
    pods.recheck_all()
    assert those(pods, 0, 9) == ["a"]


def test_one_node_wakes_one_pod_of_a_shape() -> None:
    """Of two equal pods the first is woken for one node, both for two; a pod of another shape has its own."""
    assert those(with_pods("a", "b"), 0, 6) == ["a"]
    assert those(with_pods("a", "b"), 0, 6, 7) == ["a", "b"]
    pods = with_pods("a")
    pods.add(pod("large", LARGE), 5)
    pods.recheck_all()
    assert those(pods, 0, 6) == ["a", "large"]


def test_the_next_one_where_the_first_is_silent() -> None:
    """A node that wakes a pod of which nothing is heard wakes the next one a second later, in turn."""
    pods = with_pods("a", "b", "c")
    assert those(pods, 0, 6) == ["a"]
    assert those(pods, 0.5, 6) == []
    assert those(pods, 1, 6) == ["b"]
    assert those(pods, 2, 6) == ["c"]


def test_the_next_one_where_the_first_is_refused_again() -> None:
    """Once the first has been refused again, by something that only kube-scheduler knows, the next one is woken."""
    pods = with_pods("a", "b")
    assert those(pods, 0, 6) == ["a"]
    pods.add(pod("a"), 6)
    assert those(pods, 0.25, 6) == ["b"]


def test_nobody_where_the_first_was_placed() -> None:
    """Once the first has been placed, and the node takes no more, nobody is woken, and nobody looked at any longer."""
    pods = with_pods("a", "b")
    assert those(pods, 0, 6) == ["a"]
    pods.remove("a")
    assert those(pods, 0.25) == []
    assert those(pods, 1, 7) == [], "there was no news"


def test_pauses_grow_to_a_minute() -> None:
    """A pod that is never heard of is woken after 1, 2, 4 ... 60, 60 seconds."""
    pods = with_pods("a")
    moments = [quarter / 4 for quarter in range(4 * 300) if those(pods, quarter / 4, 6)]
    pauses = [later - before for before, later in pairwise(moments)]
    assert pauses[:6] == [1, 2, 4, 8, 16, 32]
    assert set(pauses[6:]) == {MAX_BACKOFF}
    assert INITIAL_BACKOFF == 1


def test_pauses_last_while_it_is_refused() -> None:
    """A pod that is refused each time it is woken is woken less and less often too, however often nodes change."""
    pods = with_pods("a")
    moments: list[float] = []
    for quarter in range(4 * 300):
        pods.recheck_all()
        if those(pods, quarter / 4, 6 + quarter):
            moments.append(quarter / 4)
            pods.add(pod("a"), 6 + quarter)
    assert len(moments) < 12


def test_who_goes_is_not_woken() -> None:
    """A pod that was removed is not woken; to remove one that is not there is nothing."""
    pods = with_pods("a")
    pods.remove("a")
    pods.remove("nobody")
    assert those(pods, 0, 6) == []
    assert "a" not in pods


def test_another_shape_under_the_same_id() -> None:
    """A pod that is asked about with other requests counts for these alone."""
    pods = with_pods("a")
    pods.add(pod("a", LARGE), 5)
    assert [(one.shape, one.pod_count) for one in pods.most_common_shapes(4)] == [(LARGE, 1)]


def test_not_too_many_at_once() -> None:
    """Of very many pods some are woken at a look, the next ones at the next, in turn."""
    pods = with_pods(*(f"p{number}" for number in range(3 * MAX_REQUEUED)))
    changes = range(6, 6 + 4 * MAX_REQUEUED)
    looks = [those(pods, 0.25 * look, *changes) for look in range(3)]
    assert [len(look) for look in looks] == [MAX_REQUEUED] * 3
    assert len({uid for look in looks for uid in look}) == 3 * MAX_REQUEUED


def test_not_too_many_shapes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are asked about a few shapes at a look, and about the others at the next ones."""
    monkeypatch.setattr(unschedulable_pods, "MOST_SHAPES", 2)
    pods = UnschedulablePods()
    for number, shape in enumerate(SHAPES):
        pods.add(pod(str(number), shape), 5)
    pods.recheck_all()
    asked: list[PodShape] = []

    def places(shape: PodShape) -> list[int]:
        asked.append(shape)
        return [6]

    woken = [[one.uid for one in pods.pop_due(0.25 * look, places)] for look in range(3)]
    assert woken == [["0", "1"], ["2", "3"], ["4", "5"]]
    assert asked == SHAPES


def test_commonest() -> None:
    """The shapes of most pods, with about how many there are: exact numbers would make each answer a new one."""
    pods = UnschedulablePods()
    for number in range(7):
        pods.add(pod(f"s{number}"), 0)
    pods.add(pod("l", LARGE), 0)
    assert pods.most_common_shapes(4) == ((SMALL, 4), (LARGE, 1))
    assert pods.most_common_shapes(1) == ((SMALL, 4),)
    for number in range(7):
        pods.remove(f"s{number}")
    assert pods.most_common_shapes(4) == ((LARGE, 1),)


@given(
    st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(0, 9)), min_size=1, max_size=40),
    st.lists(st.integers(10, 20), min_size=1, max_size=3),
    st.sets(st.integers(0, 39)),
    st.integers(1, 3),
)
def test_nobody_is_forgotten(
    some: list[tuple[PodShape, int]], changes: list[int], refused_again: set[int], most_shapes: int
) -> None:
    """As long as nodes that would take them stay changed, each waiting pod is woken in the end, whatever the others do.

    Some are silent, some are refused again. At no look more pods of a shape are woken than there are nodes.
    """
    pods = UnschedulablePods()
    for number, (shape, revision) in enumerate(some):
        pods.add(pod(str(number), shape), revision)
    pods.recheck_all()
    woken: set[str] = set()
    before, unschedulable_pods.MAX_SHAPES = unschedulable_pods.MAX_SHAPES, most_shapes
    try:
        for look in range(4 * 100):
            due = pods.pop_due(look / 4, lambda _: sorted(changes))
            assert max(Counter(one.shape for one in due).values(), default=0) <= len(changes)
            for one in due:
                woken.add(one.uid)
                if int(one.uid) in refused_again:
                    pods.add(one, 20)
    finally:
        unschedulable_pods.MAX_SHAPES = before
    assert woken == {str(number) for number in range(len(some))}
