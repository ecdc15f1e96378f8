"""Preemption: what is found makes room, nobody is found in vain, and the rules of the queue are kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.any_quotas import KEYS, running, snapshots, usages, waiting
from zonewise_scheduler.queue.quota.model.queues import ClusterQueue, Preemption
from zonewise_scheduler.queue.quota.model.quotas import FlavorQuotas, FlavorResource, Quota, group
from zonewise_scheduler.queue.quota.model.workload import Eviction, Settings
from zonewise_scheduler.queue.quota.preemption.order import allows, in_order
from zonewise_scheduler.queue.quota.preemption.targets import find_targets, oracle
from zonewise_scheduler.queue.quota.preemption.values import Ask
from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.model.workload import Strategy, Workload

STRATEGIES: list[tuple[Strategy, ...]] = [
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
]
SETTINGS = st.sampled_from([Settings(), *(Settings(fair_sharing=True, strategies=one) for one in STRATEGIES)])


def _asks(snapshot: Snapshot, settings: Settings, priority: int, created: int, more: int) -> list[Ask]:
    found: list[Ask] = []
    for queue, key in product(snapshot.queues.values(), KEYS):
        available = max(0, queue.available(key))
        if available < queue.potential(key):
            amount = available + 1 + more % (queue.potential(key) - available)
            new = waiting("new", amount, priority, float(created))
            found.append(Ask(snapshot, new, queue, {key: amount}, frozenset([key]), settings))
    return found


ASKS = st.builds(_asks, snapshots(), SETTINGS, st.integers(0, 4), st.integers(0, 3), st.integers(0, 5))
"""For each queue and flavor a workload that could ever fit, but does not fit now."""


@given(ASKS)
def test_the_snapshot_is_as_before(asks: list[Ask]) -> None:
    """Whatever is tried, and whether or not anything is found."""
    for ask in asks:
        before, running = usages(ask.snapshot), {name: set(found) for name, found in ask.snapshot.running.items()}
        find_targets(ask)
        oracle(ask.snapshot, ask.settings)(ask.queue, ask.workload, *next(iter(ask.usage.items())))
        assert usages(ask.snapshot) == before
        assert {name: set(found) for name, found in ask.snapshot.running.items()} == running


@given(ASKS)
def test_the_targets_make_room(asks: list[Ask]) -> None:
    """Without them the workload fits; and nobody is named twice."""
    for ask in asks:
        targets = find_targets(ask)
        assert len({one.workload.key for one in targets}) == len(targets)
        with ask.snapshot.without(one.workload for one in targets):
            assert not targets or ask.fits(borrowing=True)


@given(ASKS)
def test_no_target_is_spare(asks: list[Ask]) -> None:
    """None of them could stay: with all others gone it does not fit, at least not within nominal quota."""
    for ask in asks:
        targets = find_targets(ask)
        for spared in targets:
            with ask.snapshot.without(one.workload for one in targets if one is not spared):
                assert not ask.fits(borrowing=False)
                assert not ask.settings.fair_sharing or not ask.fits(borrowing=True)


@given(ASKS)
def test_targets_are_allowed(asks: list[Ask]) -> None:
    """By the policy of the preemptor's queue, of a contested flavor, and of other queues only where these borrow."""
    for ask, target in [(one, target) for one in asks for target in find_targets(one)]:
        rules, queue = ask.queue.spec.preemption, ask.snapshot.queue_of(target.workload)
        within = queue is ask.queue
        assert within == (target.reason == "InClusterQueue")
        assert allows(rules.within if within else rules.reclaim, ask.workload, target.workload)
        assert not target.workload.flavor_resources.isdisjoint(ask.contested)
        assert within or (queue.root is ask.queue.root and not queue.within_nominal(ask.contested))
        if target.reason == "InCohortReclaimWhileBorrowing":
            assert rules.borrow == "LowerPriority"
            assert target.workload.priority < ask.workload.priority
            assert rules.threshold is None or target.workload.priority <= rules.threshold


WORKLOADS = [running(f"w{place}", f"q{place % 2}", KEYS[0], 1, place % 3, place % 4) for place in range(8)]


@given(st.permutations(WORKLOADS))
def test_order_is_the_same_however_they_come(workloads: list[Workload]) -> None:
    """Of other queues first, then of lower priority, then admitted later."""
    assert [one.name for one in in_order(workloads, "q0", {})] == ["w3", "w7", "w1", "w5", "w6", "w0", "w4", "w2"]


def test_more_usage_of_a_local_queue_goes_first() -> None:
    """Within one queue, before priority."""
    one, other = (replace(WORKLOADS[place], queue=name) for place, name in ((0, "small"), (2, "large")))
    assert in_order([one, other], "q1", {"ns/small": 1.0, "ns/large": 2.0}) == [other, one]
    assert in_order([one, other], "q1", {"ns/small": 1.0}) == [one, other]


def test_evicted_already_goes_first() -> None:
    evicted = replace(WORKLOADS[2], eviction=Eviction("Preempted", 1.0))
    assert in_order([*WORKLOADS, evicted], "q0", {})[0] is evicted


# --- examples

CPU = FlavorResource("any", "cpu")


def queue(name: str, nominal: int, preemption: Preemption, cohort: str = "c") -> ClusterQueue:
    quotas = (group(FlavorQuotas("any", (("cpu", Quota(nominal)),))),)
    return ClusterQueue(name, quotas, cohort, preemption=preemption)


def names(snapshot: Snapshot, into: str, new: Workload, amount: int, settings: Settings) -> set[str]:
    ask = Ask(snapshot, new, snapshot.queues[into], {CPU: amount}, frozenset([CPU]), settings)
    return {one.workload.name for one in find_targets(ask)}


def test_fill_back_spares_the_small_one() -> None:
    """The small one is tried first; with the large one gone it can stay."""
    snapshot = Snapshot([queue("q", 10, Preemption(within="LowerPriority"), "")])
    snapshot.add(running("small", "q", CPU, 2, priority=0))
    snapshot.add(running("large", "q", CPU, 8, priority=1))
    assert names(snapshot, "q", waiting("new", 8, priority=2), 8, Settings()) == {"large"}


def test_what_is_lent_is_taken_back() -> None:
    """From whoever borrows, whatever its priority; under fair sharing too, within nominal quota."""
    rules = Preemption(reclaim="Any")
    for settings in (Settings(), Settings(fair_sharing=True)):
        snapshot = Snapshot([queue("mine", 4, rules), queue("theirs", 4, rules)])
        for name in ("own", "borrowed"):
            snapshot.add(running(name, "theirs", CPU, 4, priority=9, at=len(name)))
        assert names(snapshot, "mine", waiting("new", 4), 4, settings) == {"borrowed"}


def test_fair_sharing_levels_out() -> None:
    """Both queues borrow of a third one: the one with more gives way until the shares are level, and no further."""
    rules = Preemption(reclaim="Any")
    snapshot = Snapshot([queue("mine", 0, rules), queue("theirs", 0, rules), queue("lender", 4, rules)])
    for place in range(4):
        snapshot.add(running(f"w{place}", "theirs", CPU, 1, at=place))
    assert names(snapshot, "mine", waiting("new", 2), 2, Settings(fair_sharing=True)) == {"w3", "w2"}
    assert not names(snapshot, "mine", waiting("new", 3), 3, Settings(fair_sharing=True))
    assert not names(snapshot, "mine", waiting("new", 2), 2, Settings())
