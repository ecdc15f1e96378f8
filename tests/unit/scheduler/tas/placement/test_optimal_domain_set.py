"""The optimal domain set, compared with all subsets."""

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


def parameters(pods: int, size: int = 1, *, leader: bool = False) -> TopologyAssignmentParameters:
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


def states(*rows: Sequence[int]) -> DomainStates:
    """Return the states of domains: pods, slices, pods and slices with leader, leaders."""
    pods, slices, pods_with_leader, slices_with_leader, leaders = np.array(rows, np.int64).reshape(-1, 5).T
    return DomainStates(pods, slices, pods_with_leader, slices_with_leader, leaders, np.zeros(len(rows), np.int64))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 30))
def test_fewest_domains_with_fewest_spare_pods(pods: list[int], required: int) -> None:
    selected = select_optimal_domain_set_to_fit(
        states(*((pod_count, pod_count, pod_count, pod_count, 0) for pod_count in pods)),
        range(len(pods)),
        parameters(required),
    )
    if selected is None:
        assert sum(pods) < required
        return
    assert selected == sorted(set(selected))
    best = min(
        (len(subset), sum(subset))
        for size in range(1, len(pods) + 1)
        for subset in combinations(pods, size)
        if sum(subset) >= required
    )
    assert (len(selected), sum(pods[domain] for domain in selected)) == best


def test_slices_may_leave_spare_pods() -> None:
    """Each domain holds seven pods, which form one slice of four; only the last domain fits the leader."""
    selected = select_optimal_domain_set_to_fit(
        states((7, 1, 7, 1, 0), (7, 1, 7, 1, 0), (7, 1, 6, 1, 1)), range(3), parameters(12, 4, leader=True)
    )
    assert selected == [0, 1, 2]


def test_long_search_is_not_started() -> None:
    """The best fit is used instead."""
    many = states(*((8, 8, 8, 8, 0) for _ in range(2000)))
    assert select_optimal_domain_set_to_fit(many, range(2000), parameters(8000)) is None
