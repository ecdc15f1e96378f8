"""Backoff of a node for one shape of pod."""

from __future__ import annotations

import pytest

from support.ledger_kubelets import SHARED
from zonewise_scheduler.nodes.assumed.node_backoff import NodeBackoff
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts


@pytest.mark.parametrize(("later", "remaining"), [(1009.0, 20.0), (1010.0, 10.0)])
def test_misprediction_counts_until_the_longest_backoff_has_passed(later: float, remaining: float) -> None:
    """The backoff ends after 10 s. During the following 1,000 s, another misprediction doubles it."""
    backoff = NodeBackoff(LedgerTimeouts(initial_backoff=10.0, max_backoff=1000.0))
    backoff.record_misprediction("n", SHARED, 0.0)
    assert [backoff.remaining("n", SHARED, at) for at in (0.0, 4.0, 10.0, 11.0)] == [10.0, 6.0, 0.0, 0.0]
    backoff.expire(later)
    backoff.record_misprediction("n", SHARED, later)
    assert backoff.remaining("n", SHARED, later) == remaining
    assert backoff.remaining("other", SHARED, later) == 0.0
