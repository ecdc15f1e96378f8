"""fewest() against all subsets."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.tas.placement.optimal_domain_set import select_optimal_domain_set_to_fit
from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters

if TYPE_CHECKING:
    from collections.abc import Sequence


def shape(pods: int, size: int = 1, *, leader: bool = False) -> TopologyAssignmentParameters:
    return TopologyAssignmentParameters(
        pods,
        leader,
        0,
        0,
        size,
        {},
        (),
        required=False,
        unconstrained=False,
        least_free_capacity=False,
        by_affinity_score=False,
        balanced=True,
    )


def counts(*rows: Sequence[int]) -> DomainStates:
    """Of domains by pods, slices, pods and slices beside the leader, and leaders."""
    pods, slices, beside, slices_beside, leaders = np.array(rows, np.int64).reshape(-1, 5).T
    return DomainStates(pods, slices, beside, slices_beside, leaders, np.zeros(len(rows), np.int64))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 30))
def test_the_fewest_domains_with_the_least_to_spare(pods: list[int], need: int) -> None:
    found = select_optimal_domain_set_to_fit(
        counts(*((one, one, one, one, 0) for one in pods)), range(len(pods)), shape(need)
    )
    if found is None:
        assert sum(pods) < need
        return
    assert found == sorted(set(found))
    best = min(
        (len(some), sum(some))
        for number in range(1, len(pods) + 1)
        for some in combinations(pods, number)
        if sum(some) >= need
    )
    assert (len(found), sum(pods[domain] for domain in found)) == best


def test_slices_may_leave_many_pods_to_spare() -> None:
    """Each has room for seven pods, which is one slice of four; the leader is the last one's."""
    found = select_optimal_domain_set_to_fit(
        counts((7, 1, 7, 1, 0), (7, 1, 7, 1, 0), (7, 1, 6, 1, 1)), range(3), shape(12, 4, leader=True)
    )
    assert found == [0, 1, 2]


def test_what_would_take_too_long_is_left() -> None:
    """So the best fit is taken instead."""
    many = counts(*((8, 8, 8, 8, 0) for _ in range(2000)))
    assert select_optimal_domain_set_to_fit(many, range(2000), shape(8000)) is None
