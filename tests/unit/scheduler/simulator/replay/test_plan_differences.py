"""Differences between two plans, as clauses."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.replay.plan_differences import plan_differences

Json = dict[str, Any]

ITEMS = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from("abcd"), "start": st.integers(0, 1)}),
    max_size=3,
    unique_by=lambda item: item["key"],
)
PLANS = st.fixed_dictionaries({"admitted": ITEMS, "reserved": ITEMS, "wakeAt": st.integers(0, 1)})


def test_differences_name_the_workloads() -> None:
    recorded = {"admitted": [{"key": "a"}, {"key": "b"}], "reserved": [{"key": "c", "start": 1}], "wakeAt": 5}
    replayed = {"admitted": [{"key": "b"}, {"key": "d"}], "reserved": [{"key": "c", "start": 2}], "wakeAt": 6}
    assert list(plan_differences(recorded, replayed)) == [
        "admitted in the recording only: a",
        "admitted in the replay only: d",
        "reserved otherwise: c",
        "next pass at 5, in the replay at 6",
    ]


def test_another_order_is_a_difference() -> None:
    forward, backward = [{"key": "a"}, {"key": "b"}], [{"key": "b"}, {"key": "a"}]
    assert list(plan_differences({"victims": forward}, {"victims": backward})) == ["preempted in another order: a, b"]


@given(PLANS, PLANS)
def test_plans_differ_if_and_only_if_a_difference_is_reported(recorded: Json, replayed: Json) -> None:
    assert bool(list(plan_differences(recorded, replayed))) == (recorded != replayed)


def test_a_damaged_plan_differs() -> None:
    assert list(plan_differences({"admitted": [3]}, {"admitted": []})) == ["admitted in the recording only: 3"]
