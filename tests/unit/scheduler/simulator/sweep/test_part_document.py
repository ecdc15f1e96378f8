"""The result of one run in the form in which a pod writes it."""

from __future__ import annotations

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.sweep.part_document import MAX_LENGTH, PartError, part_text, read_part
from zonewise_scheduler.simulator.sweep.sweep_runs import STATISTICS, RunResult, SweepRun

RUN = SweepRun("easy", 0.9, 3)
ZEROS: dict[str, float | None] = dict.fromkeys(STATISTICS, 0.0)
RESULT = RunResult({**ZEROS, "wait_mean": 0.1, "wait_max": inf}, {"cpu": 1 / 3})


@given(st.fixed_dictionaries(dict.fromkeys(STATISTICS, st.floats(allow_nan=False))))
def test_floats_are_read_back_exactly(statistics: dict[str, float]) -> None:
    result = RunResult(statistics, {"cpu": 1 / 3})
    assert read_part(part_text(RUN, result), RUN) == result


def test_unknown_statistics_remain_unknown() -> None:
    result = RunResult({**ZEROS, "wait_mean": None}, {})
    assert read_part(part_text(RUN, result), RUN) == result


def test_the_order_of_the_resources_is_kept() -> None:
    """The order determines the rows of the table."""
    result = RunResult(ZEROS, {"memory": 0.5, "cpu": 0.25})
    assert [*read_part(part_text(RUN, result), RUN).utilisation] == ["memory", "cpu"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "easy, load 0.9, seed 3: no result of a run: ''"),
        ("zonewise: error: x", "easy, load 0.9, seed 3: no result of a run: 'zonewise: error: x'"),
        ("[]", "easy, load 0.9, seed 3: no result of a run: '[]'"),
        ('{"schemaVersion":"v2"}', "easy, load 0.9, seed 3: schemaVersion: 'v2' is not zonewise.dev/sweep-part/v1"),
        (
            part_text(RUN._replace(seed=4), RESULT),
            "easy, load 0.9, seed 3: the pod simulated another run: easy, load 0.9, seed 4",
        ),
        (
            part_text(RUN, RunResult({name: 0.0 for name in STATISTICS if name != "wait_p95"}, {})),
            "easy, load 0.9, seed 3: the result of another version of zonewise: it lacks wait_p95",
        ),
    ],
)
def test_other_text_is_not_a_result(text: str, message: str) -> None:
    with pytest.raises(PartError) as error:
        read_part(text, RUN)
    assert str(error.value) == message


def test_a_result_that_a_kubelet_would_truncate_is_an_error() -> None:
    def result(length: int) -> RunResult:
        return RunResult({}, {"x" * length: 0.5})

    spare = MAX_LENGTH - len(part_text(RUN, result(0)))
    assert json.loads(part_text(RUN, result(spare)))["seed"] == 3
    with pytest.raises(PartError, match="the result has 4097 bytes, but a termination message holds at most 4096"):
        part_text(RUN, result(spare + 1))
