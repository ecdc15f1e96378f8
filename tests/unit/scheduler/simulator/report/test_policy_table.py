"""The table: its arrangement on terminals of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import history, job, run
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.simulator.report.policy_table import Row, render_grid, summary_table
from zonewise_scheduler.simulator.report.result import PolicyResult, build_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.simulator.history import JobHistory

WIDE = 100


def result(*jobs: JobHistory, policy: str = "easy") -> PolicyResult:
    return build_result(policy, policy_named(policy), history(*jobs))


def lines(*results: PolicyResult, width: int = WIDE) -> list[str]:
    return summary_table(results, width).splitlines()


# --- the grid


def test_columns_are_aligned_right_and_labels_left() -> None:
    rows = [Row("a", ("1", "22")), Row("heading"), Row("  of it", ("333", "4"))]
    assert render_grid(("x", "longer"), rows, WIDE) == (
        "           x  longer\n"
        "a          1      22\n"
        "heading\n"
        "  of it  333       4\n"
    )  # fmt: skip


def test_columns_that_do_not_fit_follow_below() -> None:
    rows = [Row("a", ("1", "2", "3"))]
    assert render_grid(("xx", "yy", "zz"), rows, 9) == "   xx  yy\na   1   2\n\n   zz\na   3\n"


def test_a_label_is_shorter_than_its_number() -> None:
    assert (
        render_grid(("policy",), [Row("a long label of much", ("1",))], 20)
        == "              policy\na long lab..       1\n"
    )


@given(st.lists(st.text("ab", min_size=1, max_size=20), min_size=1, max_size=6), st.integers(30, 200))
def test_nothing_is_wider_than_the_terminal(heads: list[str], width: int) -> None:
    """Every column occurs exactly once."""
    rows = [
        Row("some label", [f"{position}" for position in range(len(heads))]),
        Row("x" * 60),
        Row("", ["7"] * len(heads)),
    ]
    built = render_grid(heads, rows, width).splitlines()
    assert max(map(len, built)) <= width
    numbers = [word for line in built if line.startswith("some") for word in line.split()[2:]]
    assert numbers == [f"{position}" for position in range(len(heads))]


# --- the rows


def test_a_job_that_never_waited() -> None:
    """Events that did not occur have no row."""
    assert lines(result(job("j", 0, 4, run(0, 100, 0)))) == [
        "                     easy",
        "jobs done               1",
        "wait",
        "  mean                0 s",
        "  median              0 s",
        "  95th percentile     0 s",
        "  longest             0 s",
        "bounded slowdown     1.00",
        "makespan            100 s",
        "utilisation",
        "  cpu              50.0 %",
        "decisions               2",
        "decisions per s         4",
    ]


def test_policies_are_side_by_side_in_the_same_units() -> None:
    built = lines(
        result(job("j", 0, 4, run(90_000, 90_010, 90_000))),
        result(job("j", 0, 4, run(360_000, 360_010, 360_000)), policy=DEFAULT_POLICY),
    )
    assert built[0].split() == ["easy", DEFAULT_POLICY]
    assert "  mean             1.04 d              4.17 d" in built


def test_each_kind_of_failure_has_its_row() -> None:
    jobs = (
        job("j", 0, 4, run(5, 50, 5, whole=False), run(60, 100, 60)),
        job("j", 0, 4, run(0, 50, 10), outcome="failed"),
        job("j", 1, 4, outcome="refused"),
        job("j", 2, 4, outcome="waiting"),
    )
    built = [" ".join(line.split()) for line in lines(result(*jobs))]
    assert built[1:6] == ["jobs done 1", "jobs failed 1", "jobs rejected 1", "jobs pending 1", "preemptions 1"]
    assert "until ready, mean 35.0 s" in built
    assert "utilisation, allocated" in built
    assert "utilisation, effective" in built


def test_kinds_have_their_waits() -> None:
    """A kind that never ran under a policy has no wait there."""
    small = [job("j", 0, 4, run(start, 9), kind="small") for start in (0, 4, 8)]
    jobs = [*small, job("j", 0, 4, run(10, 19, 10), kind="large")]
    other = [*small, job("j", 0, 4, outcome="waiting", kind="large")]
    built = [" ".join(line.split()) for line in lines(result(*jobs), result(*other, policy="fifo"))]
    start = built.index("mean wait of")
    assert built[start:][:3] == ["mean wait of", "small 4.00 s 4.00 s", "large 10.0 s -"]
    assert built[start:][3:6] == ["95th percentile of", "small 7.60 s 7.60 s", "large 10.0 s -"]
    assert built[start:][6:9] == ["longest wait of", "small 8.00 s 8.00 s", "large 10.0 s -"]


def test_a_single_kind_has_no_rows_of_its_own() -> None:
    """The same holds if each job has a kind of its own."""
    jobs = [job("j", 0, 4, run(4, 9, 4), kind=kind) for kind in "abc"]
    assert "mean wait of" not in lines(result(*[entry._replace(kind="small") for entry in jobs]))
    assert "mean wait of" not in lines(result(*jobs))


def test_unused_resources_have_no_row() -> None:
    gpus = {"cpu": 8, "gpu": 8}
    built = summary_table(
        [build_result("easy", policy_named("easy"), history(job("j", 0, 4, run(0, 9)), capacity=gpus))], WIDE
    )
    assert "  cpu " in built
    assert "gpu" not in built


def test_reservations_and_forecasts_are_reported_if_they_exist() -> None:
    jobs = [job("j", 0, 4, run(50, 60, 50), reservation=(0, 80), forecast=(10, 40, 90))]
    built = [
        " ".join(line.split()) for line in lines(result(*jobs), result(job("j", 0, 4, run(0, 1, 0)), policy="greedy"))
    ]
    start = built.index("reservations")
    assert built[start + 1 :][:3] == ["jobs 1 -", "started late 0 -", "earlier by, mean 30.0 s -"]
    start = built.index("forecasts")
    assert built[start + 1 :][:4] == ["jobs 1 -", "unknown 0 -", "error, mean 10.0 s -", "error, median 10.0 s -"]
    assert built[start + 5 :][:6] == [
        "error relative to wait 20.0 % -",
        "error below 2 h 10.0 s -",
        "error from 2 h - -",
        "within bounds 100.0 % -",
        "width relative to wait 160.0 % -",
        "width from 2 h - -",
    ]


def test_a_result_without_jobs_has_a_table() -> None:
    """Without jobs, a wait is unknown, not zero."""
    built = [" ".join(line.split()) for line in lines(result())]
    assert built[1:8] == [
        "jobs done 0",
        "wait",
        "mean -",
        "median -",
        "95th percentile -",
        "longest -",
        "bounded slowdown -",
    ]


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("policies", [[DEFAULT_POLICY], ["easy", DEFAULT_POLICY, "conservative"]])
def test_forty_columns_are_enough(width: int, policies: Sequence[str]) -> None:
    results = [
        result(job("j", 0, 4, run(90_000, 90_010, 90_003), reservation=(0, 8)), policy=name) for name in policies
    ]
    built = lines(*results, width=width)
    assert max(map(len, built)) <= width
    assert [word for line in built for word in line.split() if word in policies] == list(policies)
