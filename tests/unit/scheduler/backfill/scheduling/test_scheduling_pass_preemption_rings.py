"""Preemption policies under which workloads could preempt each other forever, but do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import Story, make_planner, queue, submission
from support.quota_strategies import PREEMPTIONS
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.hierarchy.preemption_graph import PreemptionGraph

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.state.planner_state import PlannerState

POLICIES = [BackfillPolicy(reserve_after=float("inf")), BackfillPolicy(), BackfillPolicy(depth=UNLIMITED_DEPTH)]
TAKES_BACK = ClusterQueuePreemption("LowerPriority", "Any", "LowerPriority")


def taker(name: str, cpus: int) -> ClusterQueue:
    """Return a queue that reclaims its quota from any workload and otherwise preempts by priority."""
    return queue(name, cpus, cohort="team", preemption=TAKES_BACK)


RING = [
    submission("high-b", 5, 6, queue="b", priority=2),
    submission("low-c", 3, 6, at=1, queue="c", priority=1),
    submission("high-c", 5, 7, at=1, queue="c", priority=2),
    submission("low-b", 3, 8, at=1, queue="b"),
]
"""high-b borrows, so low-c reclaims its quota. Then high-c preempts low-c and borrows, so low-b reclaims its own, and
high-b preempts low-b. No two of them fit at the same time.
"""


def preemptions(story: Story) -> list[tuple[str, str]]:
    """Return the preemptor and the victim of each preemption, in order."""
    return [(victim.preemptor.key, victim.workload.key) for _, step in story.plans for victim in step.victims]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_ring_of_preemptions_ends_after_one_round(policy: BackfillPolicy) -> None:
    """Afterwards, every preempted workload runs to its end."""
    story = Story(make_planner([taker("b", 3), taker("c", 4)], policy)).play(RING)
    pairs = preemptions(story)
    assert len(pairs) == len(set(pairs)) <= 4
    assert not story.planner.pending
    assert len(story.starts) == 4


def settle(planner: PlannerState) -> list[tuple[str, str]]:
    """Run passes until no workload is preempted; return the preemptor and the victim of each preemption."""
    pairs: list[tuple[str, str]] = []
    while victims := schedule(planner, 1).victims:
        for one in victims:
            events.evict(planner, one.workload.key, Eviction("Preempted", 1))
            pairs.append((one.preemptor.key, one.workload.key))
    return pairs


@pytest.mark.parametrize("how", ["withdrawn", "of another priority"])
def test_a_ring_is_forgotten(how: str) -> None:
    """Once one of its workloads is withdrawn or has changed, the ring forbids no preemption."""
    planner = make_planner([taker("b", 3), taker("c", 4)], POLICIES[0])
    pairs: list[tuple[str, str]] = []
    for one in RING:
        events.submit(planner, one.workload, one.queue)
        pairs += settle(planner)
    assert pairs == [("/low-c", "/high-b"), ("/high-c", "/low-c"), ("/low-b", "/high-c"), ("/high-b", "/low-b")]
    assert not settle(planner)
    if how == "withdrawn":
        events.withdraw(planner, "/low-b")
    else:
        events.update(planner, replace(RING[3].workload, priority=1))
    assert settle(planner)[0] == ("/low-c", "/high-b")


_ANY_QUEUES = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["team", "team", ""]), PREEMPTIONS), min_size=2, max_size=3
)
_ANY_WORK = st.lists(
    st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 9), st.integers(0, 5), st.integers(0, 2), st.integers(0, 2)),
    max_size=14,
)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@given(_ANY_QUEUES, _ANY_WORK, st.booleans())
def test_preemptions_end(
    policy: BackfillPolicy,
    specs: list[tuple[int, str, ClusterQueuePreemption]],
    drawn: list[tuple[int, int, int, int, int]],
    fair_sharing: bool,
) -> None:
    """Under any policies, every workload that can start does start, and it ends."""
    queues = [queue(f"q{at}", cpus, cohort=cohort, preemption=one) for at, (cpus, cohort, one) in enumerate(specs)]
    submissions: list[Submission] = [
        submission(f"w{serial}", cpus, run, at=at, queue=f"q{index % len(queues)}", priority=priority)
        for serial, (cpus, run, at, index, priority) in enumerate(drawn)
    ]
    story = Story(make_planner(queues, policy, fair_sharing=fair_sharing)).play(submissions)
    pairs = preemptions(story)
    assert all(pairs.count(pair) <= len(submissions) for pair in set(pairs))
    assert not story.planner.running


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=30))
def test_workloads_that_could_preempt_each_other_forever(edges: list[tuple[int, int, bool]]) -> None:
    """A preemption is forbidden if it happened before and a path leads from its victim back to its preemptor."""
    known, pairs = PreemptionGraph(), set[tuple[str, str]]()
    for one, other, forget in edges:
        preemptor, victim = str(one), str(other)
        if forget:
            assert known.forget(preemptor) == any(preemptor in pair for pair in pairs)
            pairs = {pair for pair in pairs if preemptor not in pair}
            continue
        if preemptor == victim:
            continue
        back = {victim}
        for _ in range(5):
            back |= {after for before, after in pairs if before in back}
        expected = (preemptor, victim) in pairs and preemptor in back
        assert known.forbidden(preemptor) == known.copy().forbidden(preemptor)
        assert (victim in known.forbidden(preemptor)) == expected
        if not expected:
            known.add(preemptor, victim)
            pairs.add((preemptor, victim))
