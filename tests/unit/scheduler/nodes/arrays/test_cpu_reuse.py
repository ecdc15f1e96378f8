"""Bounds on the CPUs that must not be free while the containers of a pod are allocated."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise_scheduler.nodes.arrays.cpu_reuse import cpu_demand

CPUS = 5
REQUESTS = st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=3)


def _whole_demands(requests: list[tuple[int, bool]], free: frozenset[int], reusable: frozenset[int]) -> set[int]:
    """Return the CPUs that must be free at first, for each choice of CPUs, as full-pcpus-only counts them."""
    if not requests:
        return {0}
    (cpus, is_init), *rest = requests
    demands: set[int] = set()
    for taken in map(frozenset, combinations(sorted(free | reusable), cpus)):
        left = reusable | taken if is_init else reusable - taken
        after = _whole_demands(rest, free - taken, left)
        demands |= {max(CPUS - len(free) + cpus, later) for later in after}
    return demands


@settings(max_examples=60)
@given(REQUESTS)
def test_bounds_hold_for_each_choice_of_cpus(requests: list[tuple[int, bool]]) -> None:
    """For any choice of CPUs the demand is within the bounds; if CPUs are taken in order, both bounds are equal."""
    demand = cpu_demand(requests, in_order=False)
    demands = _whole_demands(requests, frozenset(range(CPUS)), frozenset())
    assert demand.largest == max(cpus for cpus, _ in requests)
    for whole in demands:
        assert demand.whole_at_least <= whole <= demand.whole_at_most
    in_order = cpu_demand(requests, in_order=True)
    assert in_order.whole_at_most == in_order.whole_at_least == demand.whole_at_least
    assert in_order.reuse_known


def test_reuse_is_unknown_after_a_choice_out_of_order() -> None:
    """The next container depends on whether the previous one took the CPUs that an init container left."""
    assert cpu_demand([(2, True), (2, False)], in_order=False).reuse_known
    assert not cpu_demand([(2, True), (2, False), (1, False)], in_order=False).reuse_known
    assert cpu_demand([(3, True), (2, False), (1, False)], in_order=False).reuse_known
    assert cpu_demand([(0, True)], in_order=False).largest == 0
