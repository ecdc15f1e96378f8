"""Sentences that accompany the numbers."""

from __future__ import annotations

from support.histories import PREEMPTED, history, job, run
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.simulator.report.notes import bullet_list, caption, count_noun, heading, unfinished_jobs
from zonewise_scheduler.simulator.report.result import build_result


def test_the_heading_describes_the_simulation() -> None:
    """Resources that no job requests are not mentioned."""
    capacity = {"cpu": 6_400_000, "memory": 25 << 40, "example.com/gpu": 7}
    what = history(job("a", 0, 1, amounts={"cpu": 1, "memory": 1, "example.com/gpu": 0}), capacity=capacity)
    assert heading("a.yaml", what) == "a.yaml: 1 job, 6,400 cpu, 25 TiB memory"


def test_the_caption_describes_the_result() -> None:
    """Waits of several policies share a unit; without jobs, none is known."""
    easy, fifo = (
        build_result(
            name, policy_named(name), history(job("a", 0, 1, run(0, 1)), job("b", 0, 1, run(start, start + 9)))
        )
        for name, start in (("easy", 7200), ("fifo", 360_000))
    )
    assert caption([easy]) == "easy: mean wait 60.0 min, longest 2.00 h"
    assert caption([easy, fifo]) == "easy: mean wait 1.0 h, longest 2.0 h; fifo: mean wait 50.0 h, longest 100.0 h"
    idle = build_result("idle", policy_named("easy"), history(job("a", 0, 1)))
    assert caption([easy, idle]) == "easy: mean wait 60.0 min, longest 2.00 h; idle: mean wait -, longest -"


def test_jobs_that_fit_nowhere() -> None:
    """Jobs are listed by index, with the obstacle or, failing that, with their requests."""
    assert list(unfinished_jobs(PREEMPTED, "refused").values()) == ["job f: 0.009 cpu"]
    what = history(job("a", 0, 1, run(0, 1)), job("b", 0, 1, outcome="waiting", explanation="the queue is held"))
    assert unfinished_jobs(what, "waiting") == {1: "job b: the queue is held"}
    assert unfinished_jobs(what, "refused") == {}


def test_lists_are_truncated_unless_all_lines_are_requested() -> None:
    lines = [f"line {number}" for number in range(1, 8)]
    assert bullet_list("seven", lines, whole=False) == (
        "seven:\n  line 1\n  line 2\n  line 3\n  line 4\n  line 5\n  and 2 more (all with --verbose)\n"
    )
    assert bullet_list("seven", lines, whole=True).count("\n") == 8
    assert "more" not in bullet_list("five", lines[:5], whole=False)


def test_nouns_are_singular_or_plural() -> None:
    assert [count_noun(number, "line") for number in (0, 1, 2000)] == ["0 lines", "1 line", "2,000 lines"]
