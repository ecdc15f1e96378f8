"""The programs' clock."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.clock import monotonic_clock

SECONDS = st.integers(0, 1000)


class Machine:
    """A machine whose system clock is set."""

    def __init__(self) -> None:
        self.uptime = 50.0
        self.offset = 1000.0
        """The system clock minus the uptime."""

    def system(self) -> float:
        return self.uptime + self.offset

    def monotonic(self) -> float:
        return self.uptime


def test_the_clock_is_the_time_of_day() -> None:
    before = time.time()
    assert before <= monotonic_clock()() <= time.time()


def test_a_clock_that_is_set_forwards_is_followed_at_once() -> None:
    machine = Machine()
    clock = monotonic_clock(machine.system, machine.monotonic)
    machine.offset += 3600
    assert clock() == machine.system()


def test_a_clock_that_is_set_back_is_waited_for_at_half_speed() -> None:
    machine = Machine()
    clock = monotonic_clock(machine.system, machine.monotonic)
    began = clock()
    machine.offset -= 60
    readings: list[float] = []
    for _ in range(4):
        machine.uptime += 40
        readings.append(clock())
    assert readings == [began + 20, began + 40, began + 60, machine.system()]


@given(st.lists(st.tuples(SECONDS, st.integers(-10_000, 10_000))))
def test_it_never_goes_back_and_reaches_the_system_clock(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = monotonic_clock(machine.system, machine.monotonic)
    last = clock()
    for seconds, step in steps:
        machine.uptime += seconds
        machine.offset += step
        reading = clock()
        assert reading >= max(last, machine.system())
        last = reading
    machine.uptime += 2 * max(0.0, last - machine.system())
    assert clock() == machine.system()
