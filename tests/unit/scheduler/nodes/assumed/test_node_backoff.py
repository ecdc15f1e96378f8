"""Pairs of a node and a shape of pod that are set aside."""

from __future__ import annotations

import pytest

from support.ledger_kubelets import SHARED
from zonewise_scheduler.nodes.assumed.node_backoff import NodeBackoff
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts


@pytest.mark.parametrize(("later", "wait"), [(1009.0, 20.0), (1010.0, 10.0)])
def test_a_miss_is_remembered_for_as_long_as_any_pair_is_set_aside(later: float, wait: float) -> None:
    """Free again after 10 s, it counts for 1,000 s more: the next miss before that doubles the wait."""
    aside = NodeBackoff(LedgerTimeouts(initial_backoff=10.0, max_backoff=1000.0))
    aside.record_misprediction("n", SHARED, 0.0)
    assert [aside.remaining("n", SHARED, at) for at in (0.0, 4.0, 10.0, 11.0)] == [10.0, 6.0, 0.0, 0.0]
    aside.expire(later)
    aside.record_misprediction("n", SHARED, later)
    assert aside.remaining("n", SHARED, later) == wait
    assert aside.remaining("other", SHARED, later) == 0.0
