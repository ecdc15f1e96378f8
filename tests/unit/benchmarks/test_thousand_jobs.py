"""The benchmark of a talk's thousand gangs: a smaller and faster case, and missed targets."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.support.live_jobs import GangJob
from benchmarks.thousand_jobs import SCENARIO, Case, ServiceResult, read_case, scaled_scenario, table

if TYPE_CHECKING:
    from benchmarks.support.targets import Row


@functools.cache
def case(scale: float, speed: float) -> Case:
    return read_case(scaled_scenario(json.loads(SCENARIO.read_text()), scale, speed))


def test_the_whole_case_is_that_of_the_talk() -> None:
    whole = case(1, 1)
    assert (len(whole.jobs), whole.nodes, whole.cpus) == (1000, 100, 100)
    assert {(job.pods, job.cpus, job.deadline) for job in whole.jobs} == {(10, 2, 900)}
    assert all(180 <= job.run <= 270 for job in whole.jobs)
    assert [job.submitted for job in whole.jobs] == pytest.approx([0.375 * i for i in range(1000)])
    assert len(whole.simulated) == 1000


def test_a_smaller_and_faster_case_keeps_the_load() -> None:
    """The load is the Jobs' CPUs relative to the nodes' CPUs during submission. The simulated makespan scales too."""

    def load(entry: Case) -> float:
        wanted = sum(job.pods * job.cpus * job.run for job in entry.jobs)
        return wanted / (entry.nodes * entry.cpus * entry.jobs[-1].submitted)

    whole, part = case(1, 1), case(0.2, 8)
    assert (len(part.jobs), part.nodes) == (200, 20)
    assert load(part) == pytest.approx(load(whole), rel=0.05)
    assert part.makespan * 8 == pytest.approx(whole.makespan, rel=0.1)


JOBS = [GangJob(f"gang-{i}", float(i), 10, 2, 5.0, 20) for i in range(3)]
SMALL = Case(JOBS, 2, 100, [5.0, 6.0, 10.0])


def missed(results: dict[str, ServiceResult]) -> list[str]:
    return [row.label for row in rows(results) if not row.met]


def rows(results: dict[str, ServiceResult]) -> list[Row]:
    return table(SMALL, results, 1.0)


def test_a_failed_job_and_a_long_makespan_miss_the_targets() -> None:
    assert missed({"queue": ServiceResult([5.0, 6.0, 11.0], 0, 0.0)}) == []
    assert missed({"queue": ServiceResult([5.0, 6.0, 11.6], 0, 0.0)}) == [
        "... makespan, and divided by the simulated one"
    ]
    assert missed({"queue": ServiceResult([5.0, 6.0], 1, 0.0)}) == [
        "with the queue: Jobs that succeed",
        "... makespan, and divided by the simulated one",
    ]


def test_kube_scheduler_without_the_queue_has_no_target() -> None:
    assert missed({"alone": ServiceResult([], 3, 60.0)}) == []


def test_the_jobs_that_are_done_over_time() -> None:
    shown = {row.label: row.measured for row in rows({"queue": ServiceResult([5.2, 7.6, 11.0], 0, 0.0)})}
    assert shown["Jobs done after 2, 5, 8, 10, 12 s: simulated"] == "0, 1, 2, 3, 3"
    assert shown["Jobs done after 2, 5, 8, 10, 12 s: with the queue"] == "0, 0, 1, 2, 3"
