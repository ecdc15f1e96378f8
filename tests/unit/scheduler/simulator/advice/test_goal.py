"""Goals in text form, and what they measure."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import history, job, run
from zonewise_scheduler.simulator.advice.goal import EXAMPLE, JobSelection, measure, order_statistic, parse_goal

WAITS = history(
    job("a", 0, 1, run(0, 5), queue="gpu", kind="small"),
    job("b", 0, 1, run(10, 15), queue="gpu", kind="large"),
    job("c", 0, 1, run(20, 25), queue="gpu", kind="large", amounts={"cpu": 1, "nvidia.com/gpu": 1}),
    job("d", 0, 1, run(30, 35), queue="gpu", kind="large", amounts={"cpu": 1, "nvidia.com/gpu": 0}),
    job("e", 0, 1, queue="cpu"),
)


def wait(text: str) -> float:
    return measure(parse_goal(text, float), WAITS).wait


def test_a_goal_has_statistic_jobs_and_bound() -> None:
    goal = parse_goal("  p99.5 wait of  queue gpu<=60 ", float)
    assert goal[:4] == ("p99.5", 99.5, JobSelection("queue", "gpu"), 60.0)
    assert goal.text == "p99.5 wait of queue gpu<=60 s"
    assert goal.label == "p99.5 wait of queue gpu"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("mean wait of queue gpu <= 9", 15),
        ("longest wait of queue gpu <= 9", 30),
        ("p100 wait of queue gpu <= 9", 30),
        ("p75 wait of queue gpu <= 9", 20),
        ("p76 wait of queue gpu <= 9", 30),
        ("p25 wait of queue gpu <= 9", 0),
        ("p26 wait of queue gpu <= 9", 10),
        ("longest wait of kind small <= 9", 0),
        ("longest wait of resource nvidia.com/gpu <= 9", 20),
        ("p80 wait <= 9", 30),
        ("p81 wait <= 9", inf),
        ("mean wait <= 9", inf),
    ],
)
def test_statistics(text: str, seconds: float) -> None:
    """The jobs of queue gpu wait for 0, 10, 20 and 30 s; a fifth job never starts."""
    assert wait(text) == seconds


def test_the_bound_itself_meets_the_goal() -> None:
    assert measure(parse_goal("longest wait of queue gpu <= 30", float), WAITS).met
    assert not measure(parse_goal("longest wait of queue gpu <= 29.9", float), WAITS).met
    assert measure(parse_goal("longest wait of queue gpu <= 30", float), WAITS).jobs == 4


def test_jobs_that_never_start_are_counted_even_if_the_goal_does_not_include_them() -> None:
    assert measure(parse_goal("longest wait of queue gpu <= 30", float), WAITS)[2:] == (True, 1)


@pytest.mark.parametrize(
    "text",
    ["", "p95", "p95 wait", "p0 wait <= 1h", "p00.0 wait <= 1", "p101 wait <= 1", "wait <= 1", "p95 wait < 1",
     "p95 wait of gpu <= 1", "median wait <= 1", "p95 wait of queue <= 1"],
)  # fmt: skip
def test_errors_show_the_expected_form(text: str) -> None:
    with pytest.raises(ValueError, match="is not a goal: write STATISTIC wait") as error:
        parse_goal(text, float)
    assert EXAMPLE in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p95 wait of queue a <= 1", "no job of queue a: write one of cpu, gpu"),
        ("p95 wait of kind a <= 1", "no job of kind a: write one of large, small"),
        ("p95 wait of resource a <= 1", "no job of resource a: write one of cpu, nvidia.com/gpu"),
    ],
)
def test_a_selection_without_jobs(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wait(text)


def test_an_error_lists_only_the_first_of_many_names() -> None:
    jobs = history(*(job(f"j{i}", 0, 1, queue=f"q{i}") for i in range(9)))
    with pytest.raises(ValueError, match="write one of q0, q1, q2, q3, q4, q5 and 3 more"):
        measure(parse_goal("p95 wait of queue a <= 1", float), jobs)


def test_a_trace_without_names_and_without_jobs() -> None:
    with pytest.raises(ValueError, match="no job of queue a: the trace names none"):
        measure(parse_goal("p95 wait of queue a <= 1", float), history(job("a", 0, 1)))
    with pytest.raises(ValueError, match="the trace has no jobs"):
        measure(parse_goal("p95 wait <= 1", float), history())


@given(st.lists(st.integers(0, 9), min_size=1), st.integers(1, 100))
def test_an_order_statistic_is_the_smallest_value_that_enough_do_not_exceed(values: list[int], percent: int) -> None:
    statistic = order_statistic(values, percent)

    def enough(bound: float) -> bool:
        return 100 * sum(value <= bound for value in values) >= percent * len(values)

    assert enough(statistic)
    assert not any(enough(value) for value in values if value < statistic)
