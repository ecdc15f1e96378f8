"""Requests that continue through an outage of the API server."""

from __future__ import annotations

import pytest

from zonewise_common.kube.errors import Forbidden, KubeError, ServerError, TooManyRequests, TransportError
from zonewise_scheduler.client.cluster.outage import OutageTolerance


def tolerance(outcomes: list[int | KubeError], notes: list[str]) -> OutageTolerance[int]:
    waiting = iter(outcomes)

    def request() -> int:
        outcome = next(waiting)
        if isinstance(outcome, KubeError):
            raise outcome
        return outcome

    return OutageTolerance(request, notes.append, "waiting")


def test_each_outage_is_noted_once() -> None:
    notes: list[str] = []
    outages = [ServerError(503, "", "down"), TransportError("refused"), TooManyRequests(429, "", "later")]
    observing = tolerance([0, *outages, 4, TransportError("again"), 6], notes)
    assert [observing.result() for _ in range(7)] == [0, None, None, None, 4, None, 6]
    responds = "the API server responds again"
    assert notes == ["the API server: 503: down; waiting", responds, "the API server: again; waiting", responds]


def test_a_server_that_has_never_responded_is_an_error() -> None:
    with pytest.raises(TransportError):
        tolerance([TransportError("refused")], []).result()


def test_a_missing_permission_is_no_outage() -> None:
    observing = tolerance([1, Forbidden(403, "Forbidden", "no right")], [])
    assert observing.result() == 1
    with pytest.raises(Forbidden):
        observing.result()
