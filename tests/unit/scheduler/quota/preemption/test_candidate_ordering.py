"""The order of preemption candidates."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import CPU, KEYS, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.candidate_ordering import (
    candidates_ordering,
    find_candidates_for_policy,
    satisfies_preemption_policy,
    sort_candidates,
)
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.quota.api.queue_types import PreemptionPolicy
    from zonewise_scheduler.quota.api.workload_types import Workload

WORKLOADS = [running_workload(f"w{i}", f"q{i % 2}", KEYS[0], 1, i % 3, i % 4) for i in range(8)]


@given(st.permutations(WORKLOADS))
def test_the_order_does_not_depend_on_the_input_order(workloads: list[Workload]) -> None:
    """Workloads of other queues are first, then those of lower priority, then those admitted later."""
    names = [workload.name for workload in sort_candidates(workloads, "q0", {})]
    assert names == ["w3", "w7", "w1", "w5", "w6", "w0", "w4", "w2"]


def test_higher_usage_of_the_local_queue_is_first() -> None:
    """Within one queue, usage precedes priority."""
    small, large = replace(WORKLOADS[0], queue_name="small"), replace(WORKLOADS[2], queue_name="large")
    assert sort_candidates([small, large], "q1", {"ns/small": 1.0, "ns/large": 2.0}) == [large, small]
    assert sort_candidates([small, large], "q1", {"ns/small": 1.0}) == [small, large]


AGES = st.tuples(st.booleans(), st.sampled_from(["q0", "q1", ""]), st.integers(0, 2), st.sampled_from([-1.0, 0.0, 1.0]))
"""(is evicted, its queue if admitted, priority, time of admission)"""


def any_workload(name: str, *, evicted: bool, queue: str, priority: int, at: float) -> Workload:
    workload = running_workload(name, queue, KEYS[0], 1, priority, at) if queue else pending_workload(name, 1, priority)
    return replace(workload, eviction=Eviction("Preempted", 1.0) if evicted else None)


@given(ages=st.lists(AGES, min_size=2, max_size=6), by_usage=st.booleans())
def test_the_keys_of_the_order(*, ages: list[tuple[bool, str, int, float]], by_usage: bool) -> None:
    """The keys are: evicted, other queue, lower priority, admitted later (time 0 without an admission), UID."""
    expected = sorted(
        (not evicted, queue == "q0", priority, -at if queue else 0.0, f"w{i}")
        for i, (evicted, queue, priority, at) in enumerate(ages)
    )
    workloads = [
        any_workload(f"w{i}", evicted=evicted, queue=queue, priority=priority, at=at)
        for i, (evicted, queue, priority, at) in enumerate(ages)
    ]
    usage = {"ns/other": 1.0} if by_usage else {}
    assert [workload.name for workload in sort_candidates(reversed(workloads), "q0", usage)] == [
        key[-1] for key in expected
    ]


LOCAL_QUEUES = {f"ns/local{i}": twice / 2 for i, twice in enumerate((1, 3, 3))}
"""The usage of three LocalQueues; that of a fourth one is unknown."""


class Candidate(NamedTuple):
    """A candidate with the values on which the order depends, besides its age."""

    workload: Workload
    queue: str
    rank: tuple[bool, bool]
    usage: float | None
    age: tuple[int, float, str]


def make_candidates() -> Iterator[Candidate]:
    """Yield one candidate for each combination."""
    combinations = product((False, True), ("q0", "q1", "q2"), range(4), (0, 1), (-1.0, 1.0))
    for i, (evicted, queue, local, priority, at) in enumerate(combinations):
        workload = any_workload(f"{i:02}", evicted=evicted, queue=queue, priority=priority, at=at)
        rank, age = (not evicted, queue == "q0"), (priority, -at, workload.uid)
        usage = LOCAL_QUEUES.get(f"ns/local{local}")
        yield Candidate(replace(workload, queue_name=f"local{local}"), queue, rank, usage, age)


def test_the_order_of_two_candidates() -> None:
    """Swapping the candidates changes the sign of the comparison; it is 0 for a workload and itself.

    Between workloads of one queue, higher usage of the LocalQueue precedes priority if both usages are known.
    """
    for a, b in product(list(make_candidates()), repeat=2):
        by_usage = (0.0, 0.0)
        if a.queue == b.queue and a.usage is not None and b.usage is not None:
            by_usage = (-a.usage, -b.usage)
        first, second = (a.rank, by_usage[0], a.age), (b.rank, by_usage[1], b.age)
        found = candidates_ordering(a.workload, b.workload, "q0", LOCAL_QUEUES)
        assert (found < 0, found > 0) == (first < second, first > second)


def test_usage_counts_only_between_workloads_of_the_same_queue() -> None:
    """With equal usage, or with one unknown usage, priority decides."""
    low, high = (
        replace(running_workload(name, "q1", KEYS[0], 1, priority), queue_name=name)
        for priority, name in enumerate(("low", "high"))
    )
    elsewhere = replace(high, admission=WORKLOADS[2].admission)
    for usage, first in ((1.0, high), (0.5, low), (0.0, low)):
        assert sort_candidates([low, high], "q0", {"ns/low": 0.5, "ns/high": usage})[0] == first
    assert sort_candidates([low, elsewhere], "q2", {"ns/low": 0.5, "ns/high": 1.0})[0] == low
    assert sort_candidates([low, high], "q0", {"ns/high": 1.0})[0] == low


PREEMPTION = ClusterQueuePreemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")


def test_candidates_of_a_policy() -> None:
    """A candidate uses a contested flavor resource, and neither the preemption graph nor the planner forbids it."""
    snapshot = Snapshot([cpu_queue("own", 9, PREEMPTION), cpu_queue("other", 9)])
    for queue in ("own", "other"):
        for i, name in enumerate(("free", "ring", "protected", "both", "high")):
            snapshot.add_workload(running_workload(f"{queue}-{name}", queue, CPU, 1, priority=i))
        snapshot.add_workload(running_workload(f"{queue}-else", queue, KEYS[0], 1))
        for name in ("ring", "both"):
            snapshot.preemption_graph.add("ns/new", f"ns/{queue}-{name}")
            snapshot.preemption_graph.add(f"ns/{queue}-{name}", "ns/new")
    snapshot.not_preempted = {f"ns/{queue}-{name}" for queue in ("own", "other") for name in ("protected", "both")}
    new = pending_workload("new", 1, priority=4)

    def names(queue: str, preemption: ClusterQueuePreemption) -> list[str]:
        own = snapshot.cluster_queues["own"]
        own.spec = own.spec._replace(preemption=preemption)
        context = PreemptionContext(snapshot, new, own, {CPU: 1}, frozenset([CPU]), QuotaSettings())
        return [workload.name for workload in find_candidates_for_policy(context, snapshot.cluster_queues[queue])]

    assert names("own", PREEMPTION) == ["own-free"]
    assert names("other", PREEMPTION) == ["other-free", "other-high"]
    assert names("own", ClusterQueuePreemption(reclaim_within_cohort="Any")) == []
    assert names("other", ClusterQueuePreemption(within_cluster_queue="LowerPriority")) == []


def test_evicted_workloads_are_first() -> None:
    evicted = replace(WORKLOADS[2], eviction=Eviction("Preempted", 1.0))
    assert sort_candidates([*WORKLOADS, evicted], "q0", {})[0] is evicted


@pytest.mark.parametrize(
    ("policy", "priority", "submitted", "expected"),
    [
        ("LowerOrNewerEqualPriority", 1, 6.0, True),
        ("LowerOrNewerEqualPriority", 1, 5.0, False),  # of the same age
        ("LowerOrNewerEqualPriority", 1, 4.0, False),
        ("LowerOrNewerEqualPriority", 0, 4.0, True),
        ("LowerOrNewerEqualPriority", 2, 6.0, False),
        ("LowerPriority", 0, 4.0, True),
        ("LowerPriority", 1, 6.0, False),
        ("LowerPriority", 2, 6.0, False),
        ("Any", 2, 4.0, True),
        ("Never", 0, 6.0, False),
    ],
)
def test_a_policy_determines_the_candidates(
    policy: PreemptionPolicy, priority: int, submitted: float, *, expected: bool
) -> None:
    """The preemptor has priority 1 and was submitted at 5."""
    preemptor = pending_workload("preemptor", 1, priority=1, created=5.0)
    candidate = running_workload("candidate", "q", KEYS[0], 1, priority, submitted)
    assert satisfies_preemption_policy(policy, preemptor, candidate) == expected


def test_the_age_of_a_candidate_counts_from_its_eviction() -> None:
    """Its pods were not ready in time. Depending on the settings, it is as old as its submission."""
    preemptor = pending_workload("preemptor", 1, priority=1, created=5.0)
    candidate = running_workload("candidate", "q", KEYS[0], 1, 1, 4.0)
    candidate = replace(candidate, eviction=Eviction("PodsReadyTimeout", 6.0))
    assert satisfies_preemption_policy("LowerOrNewerEqualPriority", preemptor, candidate)
    assert not satisfies_preemption_policy(
        "LowerOrNewerEqualPriority", preemptor, candidate, requeue_from_eviction=False
    )


@given(st.permutations(WORKLOADS))
def test_usage_of_other_local_queues_changes_no_order(workloads: list[Workload]) -> None:
    """Comparing pairs, which usage requires, gives the same order as sorting by keys."""
    assert sort_candidates(workloads, "q0", {"ns/other": 1.0}) == sort_candidates(workloads, "q0", {})
