"""A turn passes without a look only where a look would have been for nothing, and nothing is decided otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import Story, Submission, make_planner, queue, story, submission
from support.quota_strategies import KEYS, running, snapshots, waiting
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

if TYPE_CHECKING:
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason

POLICIES = st.builds(
    ClusterQueuePreemption,
    st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
    st.sampled_from(["Never", "LowerPriority", "Any"]),
    st.sampled_from(["Never", "LowerPriority"]),
)


@given(snapshots(), st.integers(1, 12), st.integers(0, 4), st.integers(0, 9), st.booleans())
def test_who_is_hopeless_is_refused(
    snapshot: Snapshot, amount: int, priority: int, created: int, fair_sharing: bool
) -> None:
    """In every queue, whatever may be preempted there, and without flavors left to try."""
    settings = QuotaSettings(fair_sharing=fair_sharing)
    outlook = HeadroomBound(snapshot, settings)
    for name in snapshot.cluster_queues:
        head = Head(waiting("new", amount, priority, float(created)), name)
        needs = outlook.alternatives(head)
        assert needs is not None
        if outlook.inadmissible_reason(name, priority, 1.0, needs):
            assignment, targets = nominate(flavor_assigner(snapshot, head, settings))
            assert assignment.representative_mode != FlavorAssignmentMode.FIT
            assert not targets
            assert all(place == -1 for one in assignment.last_tried_flavor_idx.values() for place in one.values())


@given(snapshots(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), max_size=6))
def test_what_stands_in_a_queue_is_what_runs_in_it(snapshot: Snapshot, more: list[tuple[int, int, int]]) -> None:
    """By priority, after whatever has come and gone."""
    names = list(snapshot.cluster_queues)
    new = [
        running(f"n{serial}", names[place % len(names)], KEYS[0], amount, priority)
        for serial, (place, amount, priority) in enumerate(more)
    ]
    for one in new:
        snapshot.add_workload(one)
    for one in new[::2]:
        snapshot.remove_workload(one)
    for each in (snapshot, snapshot.copy()):
        for name, node in each.cluster_queues.items():
            held = list(each.workloads_by_queue[name].values())
            assert {priority: one.count for priority, one in node.priority_usage.items()} == {
                priority: sum(one.priority == priority for one in held) for priority in {one.priority for one in held}
            }
            for priority, standing in node.priority_usage.items():
                for key in KEYS:
                    own = [one.usage.get(key, 0) for one in held if one.priority == priority]
                    assert standing.usage.get(key, 0) == sum(own)


@st.composite
def queues(draw: st.DrawFn) -> list[ClusterQueue]:
    return [
        queue(name, draw(st.integers(2, 6)), cohort=draw(st.sampled_from(["team", "team", ""])), preemption=policy)
        for name, policy in zip("abc", draw(st.lists(POLICIES, min_size=3, max_size=3)), strict=True)
    ]


@st.composite
def wider_queues(draw: st.DrawFn) -> list[ClusterQueue]:
    """Some with another flavor."""
    found: list[ClusterQueue] = []
    for one in draw(queues()):
        more = FlavorQuotas("more", (("cpu", ResourceQuota(draw(st.integers(0, 5)))),))
        flavors = (*one.resource_groups[0].flavors, *([more] if draw(st.booleans()) else []))
        found.append(one._replace(resource_groups=(resource_group(*flavors),)))
    return found


@st.composite
def comings(draw: st.DrawFn) -> list[Submission]:
    """Few shapes, so that most of them have been refused before."""
    return [
        submission(
            f"{serial:02}",
            draw(st.sampled_from([1, 3, 5])),
            draw(st.integers(1, 9)),
            at=draw(st.integers(0, 12)),
            queue=draw(st.sampled_from("abc")),
            priority=draw(st.integers(0, 2)),
        )
        for serial in range(draw(st.integers(1, 16)))
    ]


@given(queues(), comings())
def test_nothing_is_decided_otherwise(specs: list[ClusterQueue], found: list[Submission]) -> None:
    """Than where everybody that was set aside is looked at each time, if nothing is reserved.

    Where starts are promised, who passes spares his queue a cycle, and its next may be before those of other queues.
    """
    rules = BackfillPolicy(reserve_after=float("inf"))
    fast = story(specs, found, rules)
    with patch.object(PendingWorkloads, "inadmissible_reason", return_value=""):
        slow = story(specs, found, rules)
    assert fast.starts == slow.starts
    assert fast.usage == slow.usage
    assert [[one.workload.key for one in step.victims] for _, step in fast.steps] == [
        [one.workload.key for one in step.victims] for _, step in slow.steps
    ]


@pytest.mark.parametrize(
    "rules", [BackfillPolicy(), BackfillPolicy(depth=UNLIMITED_DEPTH), BackfillPolicy(2, shortest_first=True)], ids=str
)
@given(wider_queues(), comings(), st.booleans())
def test_a_look_would_be_for_nothing(
    rules: BackfillPolicy, specs: list[ClusterQueue], found: list[Submission], fair_sharing: bool
) -> None:
    """Each that is passed over would be refused, for what is given: quota, or the start that another was promised."""
    planner = make_planner(specs, rules, fair_sharing=fair_sharing)
    pass_over, time = PendingWorkloads.mark_inadmissible, [0.0]

    def look(pending: PendingWorkloads, key: str, refusal: BoundReason) -> None:
        workload = pending.get(key)
        assert workload is not None
        head = Head(workload, pending.spec.name)
        (one,) = run_cycle(planner.snapshot.copy(), [head], planner.settings, time[0], gate=planner.reservations)
        assert one.status == "waiting"
        assert one.requeue_reason in {"NoQuota": ("NoFit", "NoCandidates"), "Reserved": ("Reserved",)}[refusal]
        pass_over(pending, key, refusal)

    class Timed(Story):
        def _decide(self, now: float) -> None:
            time[0] = now
            super()._decide(now)

    with patch.object(PendingWorkloads, "mark_inadmissible", look):
        Timed(planner).play(found)


def test_who_still_lacks_something_is_not_looked_at_again() -> None:
    """Once refused, until there is enough; whoever is new is looked at once, to be told why."""
    small = [submission(f"s{place}", 2, 1 + place) for place in range(3)]
    played = story([queue("q", 6)], [*small, submission("big", 5, 5)], BackfillPolicy(reserve_after=float("inf")))
    looks = [now for now, step in played.steps if "/big" in step.decisions]
    assert looks == [0.0, 3.0]
    assert played.starts["/big"] == 3.0
