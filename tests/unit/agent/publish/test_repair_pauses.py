"""The pauses between repairs of an object."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.clock import Clock
from zonewise.publish.repair_pauses import AT_ONCE, LONGEST, WINDOW, RepairPauses


def test_the_first_repairs_do_not_wait() -> None:
    """An edit by a person is undone at once; repeated writes by a program are undone with growing pauses."""
    pauses = RepairPauses(Clock())
    waits: list[float] = []
    for number in range(1, AT_ONCE + 10):
        waits.append(pauses.pause())
        assert pauses.note() == number
    assert waits[:AT_ONCE] == AT_ONCE * [0.0]
    assert waits[AT_ONCE : AT_ONCE + 8] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST, LONGEST]


def test_old_repairs_do_not_count() -> None:
    """After a quiet time, the next repair does not wait."""
    clock = Clock()
    pauses = RepairPauses(clock)
    for _ in range(50):
        pauses.note()
    assert pauses.pause() == LONGEST
    clock.advance(WINDOW + 1)
    assert pauses.pause() == 0.0
    assert pauses.note() == 1


@given(st.lists(st.floats(0, 30), min_size=1, max_size=200))
def test_repairs_are_few(gaps: list[float]) -> None:
    """However fast another client writes, only the first repairs of the window and those after pauses occur."""
    clock = Clock()
    pauses = RepairPauses(clock)
    start, count = clock(), 0
    for gap in gaps:
        clock.advance(gap + pauses.pause())
        pauses.note()
        count += clock() - start <= WINDOW
    assert count <= AT_ONCE + 7 + WINDOW / LONGEST
