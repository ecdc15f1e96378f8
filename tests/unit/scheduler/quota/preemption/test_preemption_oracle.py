"""Preemption: what is found makes room, nobody is found in vain, and the rules of the queue are kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import KEYS, running, snapshots, usages, waiting
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.candidate_ordering import satisfies_preemption_policy, sort_candidates
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext
from zonewise_scheduler.quota.preemption.preemption_oracle import get_targets, new_oracle

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.configuration import PreemptionStrategy
    from zonewise_scheduler.quota.api.workload_types import Workload

STRATEGIES: list[tuple[PreemptionStrategy, ...]] = [
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
]
SETTINGS = st.sampled_from(
    [QuotaSettings(), *(QuotaSettings(fair_sharing=True, preemption_strategies=one) for one in STRATEGIES)]
)


def _asks(
    snapshot: Snapshot, settings: QuotaSettings, priority: int, created: int, more: int
) -> list[PreemptionContext]:
    found: list[PreemptionContext] = []
    for queue, key in product(snapshot.cluster_queues.values(), KEYS):
        available = max(0, queue.available(key))
        if available < queue.potential_available(key):
            amount = available + 1 + more % (queue.potential_available(key) - available)
            new = waiting("new", amount, priority, float(created))
            found.append(PreemptionContext(snapshot, new, queue, {key: amount}, frozenset([key]), settings))
    return found


ASKS = st.builds(_asks, snapshots(), SETTINGS, st.integers(0, 4), st.integers(0, 3), st.integers(0, 5))
"""For each queue and flavor a workload that could ever fit, but does not fit now."""


@given(ASKS)
def test_the_snapshot_is_as_before(asks: list[PreemptionContext]) -> None:
    """Whatever is tried, and whether or not anything is found."""
    for ask in asks:
        before, running = (
            usages(ask.snapshot),
            {name: set(found) for name, found in ask.snapshot.workloads_by_queue.items()},
        )
        get_targets(ask)
        new_oracle(ask.snapshot, ask.settings)(ask.preemptor_cq, ask.preemptor, *next(iter(ask.workload_usage.items())))
        assert usages(ask.snapshot) == before
        assert {name: set(found) for name, found in ask.snapshot.workloads_by_queue.items()} == running


@given(ASKS)
def test_the_targets_make_room(asks: list[PreemptionContext]) -> None:
    """Without them the workload fits; and nobody is named twice."""
    for ask in asks:
        targets = get_targets(ask)
        assert len({one.workload.key for one in targets}) == len(targets)
        with ask.snapshot.simulate_workload_removal(one.workload for one in targets):
            assert not targets or ask.workload_fits(allow_borrowing=True)


@given(ASKS)
def test_no_target_is_spare(asks: list[PreemptionContext]) -> None:
    """None of them could stay: with all others gone it does not fit, at least not within nominal quota."""
    for ask in asks:
        targets = get_targets(ask)
        for spared in targets:
            with ask.snapshot.simulate_workload_removal(one.workload for one in targets if one is not spared):
                assert not ask.workload_fits(allow_borrowing=False)
                assert not ask.settings.fair_sharing or not ask.workload_fits(allow_borrowing=True)


@given(ASKS)
def test_targets_are_allowed(asks: list[PreemptionContext]) -> None:
    """By the policy of the preemptor's queue, of a contested flavor, and of other queues only where these borrow."""
    for ask, target in [(one, target) for one in asks for target in get_targets(one)]:
        rules, queue = ask.preemptor_cq.spec.preemption, ask.snapshot.cluster_queue_of(target.workload)
        within = queue is ask.preemptor_cq
        assert within == (target.reason == "InClusterQueue")
        assert satisfies_preemption_policy(
            rules.within_cluster_queue if within else rules.reclaim_within_cohort, ask.preemptor, target.workload
        )
        assert not target.workload.flavor_resources.isdisjoint(ask.frs_need_preemption)
        assert within or (queue.root is ask.preemptor_cq.root and not queue.is_within_nominal(ask.frs_need_preemption))
        if target.reason == "InCohortReclaimWhileBorrowing":
            assert rules.borrow_within_cohort == "LowerPriority"
            assert target.workload.priority < ask.preemptor.priority
            assert rules.max_priority_threshold is None or target.workload.priority <= rules.max_priority_threshold


WORKLOADS = [running(f"w{place}", f"q{place % 2}", KEYS[0], 1, place % 3, place % 4) for place in range(8)]


@given(st.permutations(WORKLOADS))
def test_order_is_the_same_however_they_come(workloads: list[Workload]) -> None:
    """Of other queues first, then of lower priority, then admitted later."""
    assert [one.name for one in sort_candidates(workloads, "q0", {})] == [
        "w3",
        "w7",
        "w1",
        "w5",
        "w6",
        "w0",
        "w4",
        "w2",
    ]


def test_more_usage_of_a_local_queue_goes_first() -> None:
    """Within one queue, before priority."""
    one, other = (replace(WORKLOADS[place], queue_name=name) for place, name in ((0, "small"), (2, "large")))
    assert sort_candidates([one, other], "q1", {"ns/small": 1.0, "ns/large": 2.0}) == [other, one]
    assert sort_candidates([one, other], "q1", {"ns/small": 1.0}) == [one, other]


def test_evicted_already_goes_first() -> None:
    evicted = replace(WORKLOADS[2], eviction=Eviction("Preempted", 1.0))
    assert sort_candidates([*WORKLOADS, evicted], "q0", {})[0] is evicted


# --- examples

CPU = FlavorResource("any", "cpu")


def queue(name: str, nominal: int, preemption: ClusterQueuePreemption, cohort: str = "c") -> ClusterQueue:
    quotas = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(nominal)),))),)
    return ClusterQueue(name, quotas, cohort, preemption=preemption)


def names(snapshot: Snapshot, into: str, new: Workload, amount: int, settings: QuotaSettings) -> set[str]:
    ask = PreemptionContext(snapshot, new, snapshot.cluster_queues[into], {CPU: amount}, frozenset([CPU]), settings)
    return {one.workload.name for one in get_targets(ask)}


def test_fill_back_spares_the_small_one() -> None:
    """The small one is tried first; with the large one gone it can stay."""
    snapshot = Snapshot([queue("q", 10, ClusterQueuePreemption(within_cluster_queue="LowerPriority"), "")])
    snapshot.add_workload(running("small", "q", CPU, 2, priority=0))
    snapshot.add_workload(running("large", "q", CPU, 8, priority=1))
    assert names(snapshot, "q", waiting("new", 8, priority=2), 8, QuotaSettings()) == {"large"}


def test_what_is_lent_is_taken_back() -> None:
    """From whoever borrows, whatever its priority; under fair sharing too, within nominal quota."""
    rules = ClusterQueuePreemption(reclaim_within_cohort="Any")
    for settings in (QuotaSettings(), QuotaSettings(fair_sharing=True)):
        snapshot = Snapshot([queue("mine", 4, rules), queue("theirs", 4, rules)])
        for name in ("own", "borrowed"):
            snapshot.add_workload(running(name, "theirs", CPU, 4, priority=9, at=len(name)))
        assert names(snapshot, "mine", waiting("new", 4), 4, settings) == {"borrowed"}


def test_fair_sharing_levels_out() -> None:
    """Both queues borrow of a third one: the one with more gives way until the shares are level, and no further."""
    rules = ClusterQueuePreemption(reclaim_within_cohort="Any")
    snapshot = Snapshot([queue("mine", 0, rules), queue("theirs", 0, rules), queue("lender", 4, rules)])
    for place in range(4):
        snapshot.add_workload(running(f"w{place}", "theirs", CPU, 1, at=place))
    assert names(snapshot, "mine", waiting("new", 2), 2, QuotaSettings(fair_sharing=True)) == {"w3", "w2"}
    assert not names(snapshot, "mine", waiting("new", 3), 3, QuotaSettings(fair_sharing=True))
    assert not names(snapshot, "mine", waiting("new", 2), 2, QuotaSettings())
