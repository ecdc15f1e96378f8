"""Summaries of flavor assignments."""

from __future__ import annotations

import pytest

from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.flavorassigner.assignment import (
    Assignment,
    AssignmentClusterQueueState,
    FlavorAssignment,
    FlavorStatus,
    PodSetAssignment,
)
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.topology.types import TopologyAssignment

NO_FIT, PREEMPT, FIT = FlavorAssignmentMode.NO_FIT, FlavorAssignmentMode.PREEMPT, FlavorAssignmentMode.FIT


@pytest.mark.parametrize(
    ("indices", "pending"),
    [
        ({}, False),
        ({"main": {}}, False),
        ({"main": {"cpu": -1}}, False),
        ({"main": {"cpu": 0}}, True),
        ({"main": {"cpu": 1}}, True),
        ({"main": {"cpu": -1, "gpu": 0}}, True),
        ({"leader": {"cpu": -1}, "workers": {"cpu": 1}}, True),
        ({"leader": {"cpu": -1}, "workers": {"cpu": -1}}, False),
    ],
)
def test_flavors_are_pending_until_the_scan_has_reached_the_end(
    indices: dict[str, dict[str, int]], *, pending: bool
) -> None:
    assert AssignmentClusterQueueState(indices).pending_flavors == pending


def test_a_flavor_without_further_values_borrows_nothing_and_was_the_last_one() -> None:
    """The next scan starts at the first flavor, as for a resource that no scan has reached."""
    flavor = FlavorAssignment("any", FIT)
    pod_sets = (PodSetAssignment("main", 1, {}, {"cpu": flavor}),)
    state = AssignmentClusterQueueState(Assignment(pod_sets, {}).last_tried_flavor_idx)
    assert (flavor.borrowing, FlavorStatus("InUse").missing) == (0, 0)
    assert not state.pending_flavors
    assert [state.next_flavor_to_try(name, "cpu") for name in ("main", "other")] == [0, 0]


def assignment_of(*pod_sets: dict[str, tuple[FlavorAssignmentMode, int]]) -> Assignment:
    """Return an assignment; each pod set maps its resources to (mode of the flavor, borrowing level)."""
    return Assignment(
        tuple(
            PodSetAssignment(
                f"{i}",
                1,
                {},
                {resource: FlavorAssignment("any", mode, level) for resource, (mode, level) in flavors.items()},
            )
            for i, flavors in enumerate(pod_sets)
        ),
        {},
    )


@pytest.mark.parametrize(
    ("assignment", "borrows", "contested"),
    [
        (assignment_of(), 0, ""),
        (assignment_of({}), 0, ""),
        (assignment_of({"cpu": (FIT, 0)}), 0, ""),
        (assignment_of({"cpu": (FIT, 2), "gpu": (PREEMPT, 1)}), 2, "gpu"),
        (assignment_of({"cpu": (PREEMPT, 0)}, {"gpu": (PREEMPT, 3), "tpu": (NO_FIT, 0)}), 3, "cpu gpu"),
    ],
)
def test_the_largest_borrowing_level_and_the_resources_that_need_preemption(
    assignment: Assignment, borrows: int, contested: str
) -> None:
    assert assignment.borrows == borrows
    assert assignment.frs_need_preemption == {FlavorResource("any", resource) for resource in contested.split()}


@pytest.mark.parametrize(("placed", "expected"), [("", False), ("n", False), ("y", True), ("ny", True), ("yy", True)])
def test_an_assignment_has_a_placement_if_a_pod_set_has_one(placed: str, *, expected: bool) -> None:
    placement = TopologyAssignment(("host",), ())
    pod_sets = (
        PodSetAssignment(f"{i}", 1, {}, topology_assignment=placement if letter == "y" else None)
        for i, letter in enumerate(placed)
    )
    assert Assignment(tuple(pod_sets), {}).has_topology_assignment == expected
