"""Timers, compared with a table of times."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.planning.timers import Timers

KEYS = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.none() | st.integers(0, 9).map(float)),
    st.tuples(st.just("due"), st.just(""), st.integers(0, 9).map(float)),
)


@given(st.lists(STEPS, max_size=30))
def test_timers_equal_a_table_of_times(steps: list[tuple[str, str, float | None]]) -> None:
    timers, table = Timers(), dict[str, float]()
    for action, key, at in steps:
        if action == "set":
            timers.set(key, at)
            table.pop(key, None)
            table |= {} if at is None else {key: at}
        else:
            assert at is not None
            due = {name for name, time in table.items() if time <= at}
            assert sorted(timers.pop_due(at)) == sorted(due)
            table = {name: time for name, time in table.items() if name not in due}
        assert timers.next_at == min(table.values(), default=inf)
