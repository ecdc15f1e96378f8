"""Which connection is closed first, compared with a model over random events."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.connections import connected
from zonewise_common.service.connection_table import LARGE, ConnectionTable
from zonewise_common.service.http_messages import HttpRequest

if TYPE_CHECKING:
    from zonewise_common.service.connection import Connection

EVENTS = st.lists(st.tuples(st.sampled_from(["open", "serve", "establish", "touch", "evict"]), st.integers(0, 9)))


@given(EVENTS)
def test_the_longest_silent_stranger_first(events: list[tuple[str, int]]) -> None:
    """Strangers come first, in order of silence, then established ones. Clients' data does not change the order."""
    table = ConnectionTable(10)
    model: list[Connection] = []  # in the order in which they became silent
    with ExitStack() as stack:
        for event, number in events:
            connection = model[number % len(model)] if model else None
            if event == "open" and not table.full:
                model.append(connected(stack))
                table.release(model[-1])
            elif event in ("serve", "establish") and connection is not None:
                table.activate(connection)
                assert table.silent(connection.fd) is None
                connection.established = connection.established or event == "establish"
                table.release(connection)
                model.remove(connection)
                model.append(connection)
            elif event == "touch" and connection is not None:
                table.release(connection)
            elif event == "evict":
                expected = sorted(model, key=lambda one: one.established)[:1]
                victim = table.longest_silent()
                assert [victim] == (expected or [None])
                if victim is not None:
                    table.remove(victim)
                    model.remove(victim)
            assert len(table) == len(model)
            assert set(table.all()) == set(model)


def test_active_connections_remain() -> None:
    """A connection that waits for its response is neither evicted nor expired."""
    table = ConnectionTable(1)
    with ExitStack() as stack:
        connection = connected(stack)
        table.release(connection)
        table.activate(connection)
        assert (table.full, table.longest_silent()) == (True, None)
        assert (table.take_expired(1.0, 9), table.over_budget(-1)) == ([], [])
        table.release(connection)
        assert table.longest_silent() is connection
        assert table.take_expired(1.0, 9) == [connection]
        assert len(table) == 0


def test_bytes_in_memory() -> None:
    """Over budget, large connections are closed: the longest silent ones, strangers first, but never the last one."""
    table = ConnectionTable(9)
    with ExitStack() as stack:
        connections: list[Connection] = []
        for number in range(6):
            connection = connected(stack)
            connection.established = number in (1, 2)
            body = b"x" * (0 if number == 3 else LARGE)
            connection.request = HttpRequest("POST", "/", {}, keep_alive=True, body=body)
            table.release(connection)
            connections.append(connection)
        for budget, victims in ((5, []), (4, [0]), (3, [0, 4]), (2, [0, 4, 5]), (1, [0, 4, 5, 1]), (0, [0, 4, 5, 1])):
            assert table.over_budget(budget * LARGE) == [connections[number] for number in victims]
