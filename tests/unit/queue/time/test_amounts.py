"""Amounts packed into integers say just what a dictionary would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.queue.time.amounts import NARROW, WIDE, Columns

NAMES = ("cpu", "memory", "gpu")
most = {NARROW: (1 << 26) - 1, WIDE: (1 << 60) - 1}


def sizes(least: int, bits: int) -> st.SearchStrategy[dict[str, int]]:
    some = st.one_of(st.integers(least and -5, 5), st.integers(least * most[bits], most[bits]))
    return st.fixed_dictionaries(dict.fromkeys(NAMES, some))


@given(st.data(), st.sampled_from([NARROW, WIDE]))
def test_a_job_fits_where_there_is_enough_of_all_it_asks_for(data: st.DataObject, bits: int) -> None:
    """What is overcommitted and not asked for is no hindrance, and no field borrows from another."""
    columns = Columns(NAMES, bits)
    free, asked = data.draw(sizes(-1, bits)), data.draw(sizes(0, bits))
    room, demand = columns.room(free), columns.demand(asked)
    short = tuple(name for name in NAMES if asked[name] and free[name] < asked[name])
    assert columns.short(room, demand.amount, demand.guards) == short
    assert ((room - demand.amount) & demand.guards == demand.guards) is not bool(short)
    assert columns.amounts(room) == free
    assert columns.asked(demand.amount) == asked
    assert columns.amounts(room - demand.amount + demand.amount) == free


def test_what_is_taken_and_given_back_adds_up() -> None:
    columns = Columns(NAMES)
    room = columns.room({"cpu": 3, "memory": 1 << 40, "gpu": 0})
    room -= columns.demand({"cpu": 5, "memory": 1 << 39}).amount
    assert columns.amounts(room) == {"cpu": -2, "memory": 1 << 39, "gpu": 0}
    room += columns.demand({"cpu": 2, "gpu": 8}).amount
    assert columns.amounts(room) == {"cpu": 0, "memory": 1 << 39, "gpu": 8}


@pytest.mark.parametrize(
    ("amounts", "said"),
    [
        ({"cpus": 1}, "cpus: no such resource; there are cpu, memory, gpu"),
        ({"gpu": -1}, "gpu: -1 is not between 0 and"),
        ({"gpu": 1 << 60}, "gpu: 1152921504606846976 is not between 0 and 1152921504606846975"),
    ],
)
def test_a_demand_that_is_none_is_named(amounts: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Columns(NAMES).demand(amounts)


def test_unknown_is_not_zero() -> None:
    """Of every resource it must be said how much is free."""
    with pytest.raises(ValueError, match="free: nothing is said of memory, gpu"):
        Columns(NAMES).room({"cpu": 1})
