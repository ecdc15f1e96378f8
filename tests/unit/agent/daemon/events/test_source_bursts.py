"""The end of a burst: no event is lost, and no event waits longer than MAX_BURST."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.clock import Clock
from zonewise.daemon.events import Reason
from zonewise.daemon.events.source import burst_deadline, gather

SECONDS = st.floats(0, 0.05)
GAPS = st.lists(st.tuples(st.floats(0, 0.01), st.sets(st.sampled_from(Reason), max_size=2)), max_size=30)


class Events:
    """Events with given gaps between them; waiting for them advances a clock."""

    def __init__(self, gaps: list[tuple[float, set[Reason]]], clock: Clock) -> None:
        self.clock = clock
        self.times: list[tuple[float, set[Reason]]] = []
        now = clock()
        for gap, reasons in gaps:
            now += gap
            self.times.append((now, reasons))

    def more(self, seconds: float) -> set[Reason]:
        until = self.clock() + seconds
        if self.times and self.times[0][0] <= until:
            time, reasons = self.times.pop(0)
            self.clock.now = max(self.clock(), time)
            return reasons
        self.clock.now = until
        return set()


@given(GAPS, st.floats(0.0001, 0.01), st.floats(0.0001, 0.05))
def test_no_event_is_lost_or_late(gaps: list[tuple[float, set[Reason]]], quiet: float, patience: float) -> None:
    """Consecutive bursts return every reason that arrived, each within the patience after its first event."""
    clock = Clock(0.0)
    events = Events(gaps, clock)
    expected = {reason for _, reasons in gaps for reason in reasons}
    returned: set[Reason] = set()
    while events.times:
        first = events.more(1.0)
        began = clock()
        if first:
            returned |= gather(first, events.more, clock, quiet, patience)
            assert clock() - began <= patience + 1e-9
    assert returned == expected


@given(GAPS, st.floats(0.0001, 0.01), st.floats(0.0001, 0.05))
def test_quiet_or_the_limit_or_a_stop_ends_a_burst(
    gaps: list[tuple[float, set[Reason]]], quiet: float, patience: float
) -> None:
    """Otherwise, the next scan would begin in the middle of a burst."""
    clock = Clock(0.0)
    events = Events(gaps, clock)
    event_times = [0.0]

    def more(seconds: float) -> set[Reason]:
        reasons = events.more(seconds)
        if reasons:
            event_times.append(clock())
        return reasons

    found = gather({Reason.STATE}, more, clock, quiet, patience)
    assert Reason.STOP in found or clock() >= min(event_times[-1] + quiet, patience) - 1e-9


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_the_end_is_bounded_by_both(first: float, later: float, quiet: float, patience: float) -> None:
    end = burst_deadline(first, first + later, quiet, patience)
    assert end <= first + patience
    assert end <= first + later + quiet
    assert end in (first + patience, first + later + quiet)


def test_a_stop_is_returned_at_once() -> None:
    """A stop may begin the burst or arrive during it."""
    clock = Clock(0.0)
    assert gather({Reason.STOP}, Events([(0.001, {Reason.STATE})], clock).more, clock) == {Reason.STOP}
    assert clock() == 0.0
    events = Events([(0.001, {Reason.STOP}), (0.001, {Reason.PODS})], clock)
    assert gather({Reason.STATE}, events.more, clock) == {Reason.STATE, Reason.STOP}
    assert clock() == 0.001


def test_events_without_a_reason_do_not_prolong_a_burst() -> None:
    """The kubelet's temporary files cause such events."""
    clock = Clock(0.0)
    nothing: list[tuple[float, set[Reason]]] = [(0.002, set()) for _ in range(50)]
    assert gather({Reason.STATE}, Events(nothing, clock).more, clock, 0.003, 0.02) == {Reason.STATE}
    assert clock() == 0.003
