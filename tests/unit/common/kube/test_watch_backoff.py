"""The waits between watches: short if the server responds, bounded if it does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.errors import ApiError, Forbidden, Gone, KubeError, ServerError, TransportError
from zonewise_common.kube.watch_backoff import WatchBackoff

GONE = Gone(410, "Expired", "too old resource version")
FORBIDDEN = Forbidden(403, "Forbidden", "no role binding yet")
BROKEN = TransportError("connection refused")
FAILURES: list[KubeError | None] = [None, GONE, FORBIDDEN, BROKEN, ServerError(500, "InternalError", "no")]


def test_gone_waits_for_nothing_once() -> None:
    """A second 410 without a healthy watch in between causes a wait."""
    backoff = WatchBackoff(Backoff(cap=5.0))
    assert backoff.delay(GONE, 0.5, healthy=False) == 0.0
    assert backoff.delay(GONE, 0.5, healthy=False) > 0.0
    assert backoff.delay(None, 0.5, healthy=True) > 0.0
    assert backoff.delay(GONE, 0.5, healthy=False) == 0.0


def test_a_response_after_an_outage() -> None:
    """An error status shows that the server is reachable again."""
    backoff = WatchBackoff(Backoff(cap=5.0))
    waits = [backoff.delay(BROKEN, 1.0, healthy=False) for _ in range(8)]
    assert waits[-1] == 5.0
    assert backoff.delay(FORBIDDEN, 1.0, healthy=False) == waits[0]
    assert backoff.delay(FORBIDDEN, 1.0, healthy=False) == waits[1]


@given(st.lists(st.tuples(st.sampled_from(FAILURES), st.booleans()), max_size=40), st.floats(0.0, 1.0))
def test_any_history(history: list[tuple[KubeError | None, bool]], jitter: float) -> None:
    """No wait exceeds the cap; of two attempts without a healthy watch in between, one waits."""
    backoff = WatchBackoff(Backoff(cap=5.0))
    may_skip = True
    for failure, healthy in history:
        wait = backoff.delay(failure, jitter, healthy=healthy)
        assert wait <= 5.0
        may_skip = may_skip or healthy
        if wait == 0.0:
            assert may_skip
            may_skip = False


def test_retry_after_counts() -> None:
    """A server that sheds load determines the wait."""
    backoff = WatchBackoff(Backoff(cap=5.0))
    assert backoff.delay(ApiError(429, "TooManyRequests", "later", 20.0), 0.0, healthy=False) == 20.0
