"""Requeueing of unschedulable pods: one per changed node, with a growing backoff, and each of them in the end."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import pod_shape
from zonewise_scheduler.extender.state import unschedulable_pods
from zonewise_scheduler.extender.state.unschedulable_pods import (
    INITIAL_BACKOFF,
    MAX_BACKOFF,
    MAX_REQUEUED,
    UnschedulablePods,
)
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.pod import PodShape

SMALL, LARGE = pod_shape((1, 0)), pod_shape((8, 0))
SHAPES = [pod_shape((cpus, 0)) for cpus in range(1, 7)]


def pod(uid: str, shape: PodShape = SMALL) -> PendingPod:
    return PendingPod(uid, "lab", uid, shape)


def changed(shapes: Iterable[PodShape], *revisions: int) -> dict[PodShape, list[int]]:
    """Return the changed revisions of the nodes by shape: the same ones for each shape."""
    return {shape: sorted(revisions) for shape in shapes}


def due_uids(pods: UnschedulablePods, at: float, *changes: int) -> list[str]:
    """Return the UIDs of the due pods if nodes for every shape changed at these revisions."""
    return [entry.uid for entry in pods.pop_due(at, changed(pods.due_shapes(), *changes))]


def with_pods(*uids: str, revision: int = 5) -> UnschedulablePods:
    pods = UnschedulablePods()
    for uid in uids:
        pods.add(pod(uid), revision)
    pods.recheck_all()
    return pods


def test_only_for_nodes_that_changed_since() -> None:
    """A node that has not changed since it rejected a pod does not requeue it."""
    assert due_uids(with_pods("a"), 0, 5) == []
    assert due_uids(with_pods("a"), 0, 6) == ["a"]


def test_only_after_a_change() -> None:
    """Without a change, no shape is checked and no pod is requeued."""
    pods = UnschedulablePods()
    pods.add(pod("a"), 0)
    assert due_uids(pods, 0, 9) == []
    pods.recheck_all()
    assert due_uids(pods, 0, 9) == ["a"]


def test_one_node_requeues_one_pod_of_a_shape() -> None:
    """Of two equal pods, one changed node requeues the first; two nodes requeue both. Each shape has its own queue."""
    assert due_uids(with_pods("a", "b"), 0, 6) == ["a"]
    assert due_uids(with_pods("a", "b"), 0, 6, 7) == ["a", "b"]
    pods = with_pods("a")
    pods.add(pod("large", LARGE), 5)
    pods.recheck_all()
    assert due_uids(pods, 0, 6) == ["a", "large"]


def test_the_next_pod_after_an_untried_one() -> None:
    """If the requeued pod is not tried, the node requeues the next one a second later, in rotation."""
    pods = with_pods("a", "b", "c")
    assert due_uids(pods, 0, 6) == ["a"]
    assert due_uids(pods, 0.5, 6) == []
    assert due_uids(pods, 1, 6) == ["b"]
    assert due_uids(pods, 2, 6) == ["c"]


def test_the_next_pod_after_a_rejected_one() -> None:
    """After kube-scheduler has rejected the first pod again, the next one is requeued."""
    pods = with_pods("a", "b")
    assert due_uids(pods, 0, 6) == ["a"]
    pods.add(pod("a"), 6)
    assert due_uids(pods, 0.25, 6) == ["b"]


def test_none_after_a_scheduled_one() -> None:
    """After the first pod is scheduled and the node admits no more, no pod is requeued or checked."""
    pods = with_pods("a", "b")
    assert due_uids(pods, 0, 6) == ["a"]
    pods.remove("a")
    assert due_uids(pods, 0.25) == []
    assert due_uids(pods, 1, 7) == [], "there was no news"


def test_backoff_grows_to_a_minute() -> None:
    """A pod that is never tried is requeued after 1, 2, 4 ... 60, 60 seconds."""
    pods = with_pods("a")
    times = [quarter / 4 for quarter in range(4 * 300) if due_uids(pods, quarter / 4, 6)]
    gaps = [later - before for before, later in pairwise(times)]
    assert gaps[:6] == [1, 2, 4, 8, 16, 32]
    assert set(gaps[6:]) == {MAX_BACKOFF}
    assert INITIAL_BACKOFF == 1


def test_backoff_lasts_while_it_is_rejected() -> None:
    """A pod that is rejected each time is requeued less and less often, even if nodes change often."""
    pods = with_pods("a")
    times: list[float] = []
    for quarter in range(4 * 300):
        pods.recheck_all()
        if due_uids(pods, quarter / 4, 6 + quarter):
            times.append(quarter / 4)
            pods.add(pod("a"), 6 + quarter)
    assert len(times) < 12


def test_removed_pods_are_not_requeued() -> None:
    """Removing an unknown pod changes nothing."""
    pods = with_pods("a")
    pods.remove("a")
    pods.remove("unknown")
    assert due_uids(pods, 0, 6) == []
    assert "a" not in pods


def test_a_new_shape_under_the_same_uid() -> None:
    """A pod that is filtered with new requests counts only with the new shape."""
    pods = with_pods("a")
    pods.add(pod("a", LARGE), 5)
    assert [(entry.shape, entry.pod_count) for entry in pods.most_common_shapes(4)] == [(LARGE, 1)]


def test_skipped_pods_are_not_requeued() -> None:
    """A pod that a scheduling pass places is skipped, and does not delay the next pod of its shape."""
    pods = with_pods("a", "b")
    due = pods.pop_due(0, changed(pods.due_shapes(), 6), lambda uid: uid == "a")
    assert [entry.uid for entry in due] == ["b"]
    pods = with_pods("a")
    assert pods.pop_due(0, changed(pods.due_shapes(), 6), lambda _: True) == []
    assert pods.due_shapes() == []


@pytest.mark.parametrize("skipped", [True, False])
def test_a_pod_behind_many_that_are_skipped(skipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one call scans only pods that need no requeueing, a later call requeues the pod behind them."""
    monkeypatch.setattr(unschedulable_pods, "MAX_SCANNED", 3)
    pods = with_pods(*"abcdefg", revision=5 if skipped else 6)
    pods.add(pod("last"), 5)
    due: list[str] = []
    for call in range(3):
        changes = changed(pods.due_shapes(), 6)
        due += [entry.uid for entry in pods.pop_due(call / 4, changes, lambda uid: skipped and uid != "last")]
    assert due == ["last"]


def test_shapes_that_are_removed_meanwhile() -> None:
    """A shape whose last pod is removed between the two calls is skipped."""
    pods = with_pods("a")
    shapes = pods.due_shapes()
    pods.remove("a")
    assert pods.pop_due(0, changed(shapes, 6)) == []


def test_requeued_pods_are_bounded() -> None:
    """One call requeues a limited number of pods, and later calls requeue the others, in rotation."""
    pods = with_pods(*(f"p{number}" for number in range(3 * MAX_REQUEUED)))
    changes = range(6, 6 + 4 * MAX_REQUEUED)
    calls = [due_uids(pods, 0.25 * call, *changes) for call in range(3)]
    assert [len(call) for call in calls] == [MAX_REQUEUED] * 3
    assert len({uid for call in calls for uid in call}) == 3 * MAX_REQUEUED


def test_checked_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call checks a few shapes against the nodes, and later calls check the rest."""
    monkeypatch.setattr(unschedulable_pods, "MAX_SHAPES", 2)
    pods = UnschedulablePods()
    for number, shape in enumerate(SHAPES):
        pods.add(pod(str(number), shape), 5)
    pods.recheck_all()
    checked_shapes: list[PodShape] = []
    requeued: list[list[str]] = []
    for call in range(3):
        due_shapes = pods.due_shapes()
        checked_shapes += due_shapes
        requeued.append([entry.uid for entry in pods.pop_due(0.25 * call, changed(due_shapes, 6))])
    assert requeued == [["0", "1"], ["2", "3"], ["4", "5"]]
    assert checked_shapes == SHAPES


def test_most_common_shapes() -> None:
    """Pods are counted by shape, and the counts are rounded, since exact numbers would invalidate cached scores."""
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
def test_every_pod_is_requeued(
    entries: list[tuple[PodShape, int]], changes: list[int], rejected_again: set[int], max_shapes: int
) -> None:
    """While nodes that may admit them remain changed, every pod is requeued in the end.

    Some pods are not tried, and some are rejected again. One call requeues at most one pod of a shape per node.
    """
    pods = UnschedulablePods()
    for number, (shape, revision) in enumerate(entries):
        pods.add(pod(str(number), shape), revision)
    pods.recheck_all()
    requeued: set[str] = set()
    before, unschedulable_pods.MAX_SHAPES = unschedulable_pods.MAX_SHAPES, max_shapes
    try:
        for call in range(4 * 100):
            due = pods.pop_due(call / 4, changed(pods.due_shapes(), *changes))
            assert max(Counter(entry.shape for entry in due).values(), default=0) <= len(changes)
            for entry in due:
                requeued.add(entry.uid)
                if int(entry.uid) in rejected_again:
                    pods.add(entry, 20)
    finally:
        unschedulable_pods.MAX_SHAPES = before
    assert requeued == {str(number) for number in range(len(entries))}
