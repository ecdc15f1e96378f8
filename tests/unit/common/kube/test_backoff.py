"""Waiting: within bounds, longer each time, never before the server wants; and trying again on conflicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.errors import Conflict, NotFound
from zonewise_common.kube.retry import retry_on_conflict

ATTEMPTS = st.integers(0, 10_000)
JITTERS = st.floats(0, 1)
RULES = st.builds(Backoff, base=st.floats(0.001, 10), cap=st.floats(10, 100), retry_after_cap=st.floats(100, 1000))


@given(RULES, ATTEMPTS, JITTERS)
def test_bounds(rule: Backoff, attempt: int, jitter: float) -> None:
    """A wait is at least half of the base, and at most the cap."""
    delay = rule.delay(attempt, jitter)
    assert rule.base / 2 <= delay <= rule.cap


@given(RULES, ATTEMPTS, JITTERS)
def test_grows(rule: Backoff, attempt: int, jitter: float) -> None:
    """With the same jitter a later attempt waits no shorter."""
    assert rule.delay(attempt, jitter) <= rule.delay(attempt + 1, jitter)


@given(RULES, ATTEMPTS, JITTERS, st.floats(0, 1e9))
def test_retry_after_is_a_minimum(rule: Backoff, attempt: int, jitter: float, retry_after: float) -> None:
    """The wait is at least Retry-After up to its cap, and exceeds it by a quarter at most."""
    delay = rule.delay(attempt, jitter, retry_after)
    assert delay >= min(retry_after, rule.retry_after_cap)
    assert delay <= max(rule.cap, 1.25 * min(retry_after, rule.retry_after_cap))


def test_a_minute_of_failures() -> None:
    """The defaults ask a failing server about a dozen times in its first minute."""
    waits = [Backoff().delay(attempt, 0.5) for attempt in range(20)]
    assert sum(waits[:8]) < 60 < sum(waits[:10])


def test_conflict_then_success() -> None:
    """The action is called again with growing waits until it succeeds."""
    waits: list[float] = []
    outcomes = iter([Conflict(409, "Conflict", "changed"), Conflict(409, "Conflict", "changed"), "done"])

    def action() -> str:
        outcome = next(outcomes)
        if isinstance(outcome, Conflict):
            raise outcome
        return outcome

    assert retry_on_conflict(action, sleep=waits.append, draw=lambda: 1.0) == "done"
    assert waits == [0.02, 0.04]


@pytest.mark.parametrize(("error", "calls"), [(Conflict, 3), (NotFound, 1)])
def test_not_for_ever_and_not_for_everything(error: type[Conflict], calls: int) -> None:
    """The last conflict is raised, and any other error at once."""
    made: list[int] = []

    def action() -> None:
        made.append(1)
        raise error(409, "", "no")

    with pytest.raises(error):
        retry_on_conflict(action, 3, sleep=lambda _: None)
    assert len(made) == calls
