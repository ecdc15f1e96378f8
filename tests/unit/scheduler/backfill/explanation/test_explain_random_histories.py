"""Explanations are true after any random history; they are compared with the snapshot and the reservations."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from support.planner_stories import Story, Submission
from unit.scheduler.backfill.reservations.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.message import explanation_message
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.reservations.timeline import has_capacity, is_running
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate
from zonewise_scheduler.quota.cycle.scheduling_cycle import with_admission
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload


@pytest.mark.parametrize(
    "policy", [*POLICIES, BackfillPolicy(reserve_after=inf), BackfillPolicy(overtaking=False)], ids=str
)
@given(queue_lists(preemption=True), submission_lists(most=9))
def test_every_explanation_is_true(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission]
) -> None:
    Story(new_state(Snapshot(specs), policy), watch=check).play(submissions)


def check(planner: PlannerState, now: float) -> None:
    """Compare the explanations of all pending workloads with the snapshot and the reservations."""
    for key in planner.pending:
        reason = explain(planner, key, now)
        assert explanation_message(reason)
        for one in reason.shortages:
            node = planner.snapshot.cluster_queues[reason.queue]
            resource = FlavorResource(one.flavor, one.resource)
            assert (
                one.requested
                > one.available
                == max(0, (node.potential_available if one.exceeds_max_quota else node.available)(resource))
            )
        if reason.delayed_reservation is not None:
            assert breaks(planner, key, reason.delayed_reservation.key, now)
        if reason.waits_for and reason.delayed_reservation is None:
            assert fits_without(planner, key, reason.waits_for)
            for spared in reason.waits_for:
                rest = [one for one in reason.waits_for if one != spared]
                assert not fits_without(planner, key, rest, by_force=False)
        hindered = reason.shortages or reason.blocked_by or reason.delayed_reservation or reason.victims
        assert hindered, reason
        assert not reason.never_fits or all(one.exceeds_max_quota for one in reason.shortages)
        assert not reason.reserved or planner.reservations.by_key[key].start == reason.start or reason.start == now


def pending_workload(planner: PlannerState, key: str) -> Workload:
    workload = planner.pending_workload(key)
    assert workload is not None
    return workload


def fits_without(planner: PlannerState, key: str, ended: Sequence[str], *, by_force: bool = True) -> bool:
    """Return whether a workload fits once others have ended and, with `by_force`, once its victims are gone."""
    snapshot = planner.snapshot.copy()
    snapshot.remove_workloads([planner.running[one].workload for one in ended])
    head = Head(pending_workload(planner, key), planner.pending[key])
    assignment, targets = nominate(flavor_assigner(snapshot, head, planner.settings))
    return assignment.representative_mode == FlavorAssignmentMode.FIT or (by_force and bool(targets))


def breaks(planner: PlannerState, key: str, other: str, now: float) -> bool:
    """Return whether a workload and another one at its reserved start together exceed the capacity."""
    snapshot = planner.snapshot.copy()
    head = Head(pending_workload(planner, key), planner.pending[key])
    assignment, targets = nominate(flavor_assigner(snapshot, head, planner.settings))
    new = with_admission(head.workload, snapshot.cluster_queues[head.cluster_queue].spec, assignment, now)
    others = [one for name, one in planner.reservations.by_key.items() if name != key]
    for future in planner.timeline(others).future_states():
        if other in future.reservations and future.time < now + new.max_duration:
            future.snapshot.remove_workloads(
                [one.workload for one in targets if is_running(future.snapshot, one.workload)]
            )
            return not has_capacity(future.snapshot, new)
    return False
