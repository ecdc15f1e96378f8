"""The age of a copy, which only a sign of life of the watch lowers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.kube.freshness import Freshness

DUE = 75.0
EVENTS = st.lists(st.tuples(st.sampled_from(["confirm", "begin", "end", "wait"]), st.integers(0, 200)), max_size=20)


def test_a_quiet_watch_is_current() -> None:
    """One bookmark a minute suffices; without one, the age grows from the moment at which it was due."""
    freshness = Freshness(DUE, 0.0)
    assert freshness.age(10.0) == 10.0
    freshness.begin(20.0)
    assert freshness.age(90.0) == 0.0
    freshness.confirm(80.0)
    assert freshness.age(155.0) == 0.0
    assert freshness.age(165.0) == 10.0
    assert freshness.silence(165.0) == 85.0


def test_a_broken_watch() -> None:
    """The copy was current until the watch ended, or until its silence lasted too long, whichever came first."""
    freshness = Freshness(DUE, 0.0)
    freshness.begin(0.0)
    freshness.end(30.0)
    assert freshness.age(40.0) == 10.0
    freshness.begin(50.0)
    freshness.end(150.0)
    assert freshness.age(160.0) == 35.0
    freshness.end(170.0)  # no watch was open
    assert freshness.age(180.0) == 55.0


def test_a_listing() -> None:
    """A listing shows the server's state at some time after the request."""
    freshness = Freshness(DUE, 0.0)
    freshness.confirm(10.0)
    assert freshness.age(14.0) == 4.0


@given(EVENTS)
def test_any_history(events: list[tuple[str, int]]) -> None:
    """The age is at least 0 and at most the time since the last sign of life, and otherwise grows with time."""
    freshness = Freshness(DUE, 0.0)
    now = last_sign = 0.0
    for kind, seconds in events:
        before, now = freshness.age(now), now + seconds
        assert before <= freshness.age(now) <= before + seconds
        if kind != "wait":
            getattr(freshness, kind)(now)
        last_sign = now if kind in {"confirm", "begin"} else last_sign
        assert 0.0 <= freshness.age(now) <= now - last_sign
        assert freshness.age(now) >= now - last_sign - DUE
