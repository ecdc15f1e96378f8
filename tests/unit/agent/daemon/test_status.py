"""The age of the published objects, and the time since the last heartbeat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.clock import Clock
from zonewise.daemon.status import Snapshot, Status

NAMES = ("nrt", "labels")
STEPS = st.lists(st.tuples(st.floats(0, 100), st.sampled_from([*NAMES, "other", "beat"])), max_size=20)


def test_nothing_to_publish_is_never_old() -> None:
    assert Status(Clock()).age() == 0.0


def test_a_snapshot_is_stored_whole() -> None:
    status = Status(Clock())
    snapshot = Snapshot("n1")
    status.set_snapshot(snapshot)
    assert status.snapshot is snapshot


@given(STEPS)
def test_ages(steps: list[tuple[float, str]]) -> None:
    """The age is that of the least recently confirmed object; the silence is the time since the last heartbeat.

    The age is unknown until every object has been confirmed once.
    """
    clock = Clock()
    status = Status(clock)
    status.expect(NAMES)
    last = {name: clock() for name in ("beat",)}
    for seconds, name in steps:
        clock.advance(seconds)
        last[name] = clock()
        if name == "beat":
            status.beat()
        else:
            status.published(name)
        assert status.silence() == clock() - last["beat"]
        known = [last[one] for one in NAMES if one in last]
        assert status.age() == (clock() - min(known) if len(known) == len(NAMES) else None)


def test_a_confirmation_some_time_ago() -> None:
    """The age is the time since the object was last confirmed, not since it was written."""
    clock = Clock()
    status = Status(clock)
    status.expect(["nrt"])
    status.published("nrt", 40.0)
    clock.advance(2)
    assert status.age() == 42


def test_a_reload_forgets_only_what_is_no_longer_published() -> None:
    """Objects that are still published remain confirmed; new ones have never been."""
    clock = Clock()
    status = Status(clock)
    status.expect(["nrt", "labels"])
    status.published("nrt")
    status.expect(["nrt"])
    clock.advance(7)
    assert status.age() == 7
    status.expect(["nrt", "labels"])
    assert status.age() is None
