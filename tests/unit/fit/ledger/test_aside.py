"""Pairs of a node and a shape of pod that are set aside."""

from __future__ import annotations

import pytest

from support.ledger_world import SHARED
from zonewise_scheduler.fit.ledger.aside import Aside
from zonewise_scheduler.fit.ledger.values import Waits


@pytest.mark.parametrize(("later", "wait"), [(1009.0, 20.0), (1010.0, 10.0)])
def test_a_miss_is_remembered_for_as_long_as_any_pair_is_set_aside(later: float, wait: float) -> None:
    """Free again after 10 s, it counts for 1,000 s more: the next miss before that doubles the wait."""
    aside = Aside(Waits(aside=10.0, longest_aside=1000.0))
    aside.put("n", SHARED, 0.0)
    assert [aside.left("n", SHARED, at) for at in (0.0, 4.0, 10.0, 11.0)] == [10.0, 6.0, 0.0, 0.0]
    aside.expire(later)
    aside.put("n", SHARED, later)
    assert aside.left("n", SHARED, later) == wait
    assert aside.left("other", SHARED, later) == 0.0
