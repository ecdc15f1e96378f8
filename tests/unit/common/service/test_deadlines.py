"""The timer wheel, compared with a list of deadlines over random events."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.connections import connected
from zonewise_common.service.deadlines import SLOT, Deadlines

if TYPE_CHECKING:
    from zonewise_common.service.connection import Connection

CLIENTS = 6
KINDS = st.sampled_from(["set", "discard", "look"])
EVENTS = st.lists(st.tuples(KINDS, st.integers(0, CLIENTS - 1), st.floats(0.0, 10.0), st.integers(1, 3)))


@given(EVENTS)
def test_passed_deadlines(events: list[tuple[str, int, float, int]]) -> None:
    """A deadline never passes too early, nor later than one slot, and only a connection's last deadline counts."""
    deadlines = Deadlines()
    model: dict[Connection, float] = {}
    now = 0.0
    with ExitStack() as stack:
        connections = [connected(stack) for _ in range(CLIENTS)]
        for event, number, seconds, most in events:
            connection = connections[number]
            if event == "set":
                connection.deadline = model[connection] = now + seconds
                deadlines.set(connection)
            elif event == "discard":
                deadlines.discard(connection)
                model.pop(connection, None)
            else:
                now += seconds
                passed = deadlines.take_passed(now, most)
                assert len(passed) == len(set(passed)) <= most
                assert all(model[one] <= now for one in passed)
                overdue = sum(deadline + SLOT <= now for deadline in model.values())
                assert len(passed) >= min(overdue, most)
                for one in passed:
                    del model[one]


def test_groups_of_passed_deadlines() -> None:
    """Each call returns the next deadlines, those of the earliest slot first."""
    deadlines = Deadlines()
    with ExitStack() as stack:
        connections = [connected(stack) for _ in range(CLIENTS)]
        for number, connection in enumerate(connections):
            connection.deadline = 10.0 - number
            deadlines.set(connection)
        seen: list[Connection] = []
        while group := deadlines.take_passed(20.0, 4):
            seen += group
        assert seen == connections[::-1]
