"""Logs in the Standard Workload Format, valid and damaged."""

from __future__ import annotations

import gzip
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.pool_log import build_tasks
from zonewise_scheduler.simulator.swf import LoggedJob, LoggedJobs, parse_swf, read_swf

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "; Version: 2\n; MaxNodes: 50\n;  MaxProcs: 100 (two partitions)\n"
LINE = "7 100 20 30 8 -1 -1 16 60 -1 1 3 4 5 6 -1 -1 -1\n"
JOB = LoggedJob(7, 100, 20, 30, 8, 60, 3, 5, 6)


def line(**fields: object) -> str:
    """Return a line with changed fields, f1 to f18."""
    words = [str(word) for word in LINE.split()]
    for name, value in fields.items():
        words[int(name[1:]) - 1] = str(value)
    return " ".join(words)


def test_jobs_and_the_size_of_the_machine_are_read() -> None:
    log = parse_swf((HEADER + "\n" + LINE).splitlines())
    assert (list(log.jobs), log.processors, log.problems, log.partial) == ([JOB], 100, [], 0)


def test_nodes_replace_an_absent_number_of_processors() -> None:
    assert parse_swf(["; MaxNodes: 50", "; MaxProcs: -1"]).processors == 50
    assert parse_swf(["; Computer: a PC"]).processors is None


def test_a_size_of_thousands_of_digits_is_read_as_a_large_one() -> None:
    assert parse_swf([f"; MaxProcs: {'9' * 5000}"]).processors == 10**20 - 1


@pytest.mark.parametrize("size", ["1,024", "4x8", "-8", "8.5"])
def test_an_invalid_size_is_named_and_no_other_size_replaces_it(size: str) -> None:
    log = parse_swf(["; MaxNodes: 4", f"; MaxProcs: {size}"])
    assert log.processors is None
    assert [str(problem) for problem in log.problems] == [f"line 2: MaxProcs: {size!r} is not a number"]


def test_a_second_size_does_not_replace_the_first_one() -> None:
    log = parse_swf(["; MaxProcs: 8", LINE, "; MaxProcs: 8", "; MaxProcs: 4"])
    assert log.processors == 8
    assert [str(problem) for problem in log.problems] == ["line 4: MaxProcs: 4: duplicate: the first one counts"]


def test_unknown_values_are_not_zero() -> None:
    """Requested processors replace unknown ones; a job need not declare a run time."""
    log = parse_swf([line(f5=-1, f9=-1)])
    assert list(log.jobs) == [JOB._replace(processors=16, requested_time=inf)]


def test_times_may_have_fractions() -> None:
    log = parse_swf([line(f2="100.5", f4="30.25", f6="1.5")])
    assert list(log.jobs) == [JOB._replace(submit_time=100.5, run_time=30.25)]


@pytest.mark.parametrize(
    ("damaged", "reported"),
    [
        (line(f4="3o"), "field 4 (run time): '3o' is not a number"),
        (line(f2="nan"), "field 2 (submit time): nan"),
        (line(f2=-5), "field 2 (submit time): -5"),
        (line(f4=-1), "field 4 (run time): -1"),
        (line(f5=-1, f8=-1), "field 5 (allocated processors): -1"),
        (line(f4=10**30), "field 4 (run time): 1e+30"),
        (line(f9="1e400"), "field 9 (requested time): inf"),
        (line(f9=10**400), "field 9 (requested time): inf"),
        (line(f3=-(10**400)), "field 3 (wait time): -inf"),
        (line(f1="9" * 5000), "field 1 (job number): inf"),
        (line(f1=2**63), "field 1 (job number): 9.22337e+18"),
        (line(f12="-1e30"), "field 12 (user): -1e+30"),
        (line(f1="7.5"), "field 1 (job number): 7.5"),
        (line(f5="2.5"), "field 5 (allocated processors): 2.5"),
        (line(f4="1_0"), "field 4 (run time): '1_0' is not a number"),
        ("7 100 20", "line: 3 fields rather than 18"),
        (LINE.strip() + " 1", "line: 19 fields rather than 18"),
        ("\0\ufffd", "line: 1 fields rather than 18"),
    ],
)
def test_a_damaged_line_is_named_and_no_other_is_lost(damaged: str, reported: str) -> None:
    log = parse_swf([HEADER.splitlines()[0], LINE, damaged, line(f1=8)])
    assert [str(entry) for entry in log.problems] == [f"line 3: {reported}"]
    assert list(log.jobs) == [JOB, JOB._replace(job_number=8)]


def test_of_jobs_with_the_same_number_the_first_one_counts() -> None:
    log = parse_swf([line(f1=9), LINE, line(f1=9, f2=1), LINE, line(f1=8, f11=2), line(f1=8, f11=3)])
    assert [job.job_number for job in log.jobs] == [9, 7, 8]
    assert [str(problem) for problem in log.problems] == [
        "line 3: field 1 (job number): 9: duplicate: the first one counts",
        "line 4: field 1 (job number): 7: duplicate: the first one counts",
        "line 6: field 1 (job number): 8: duplicate: the first one counts",
    ]


def test_parts_of_suspended_jobs_are_not_counted_twice() -> None:
    log = parse_swf([line(f11=status) for status in (2, 3, 4, 1)])
    assert (len(log.jobs), log.partial, log.problems) == (1, 3, [])


def test_the_status_of_a_part_may_be_an_exit_code_of_a_whole_job() -> None:
    """On Sandia Ross, lines with status 2 are the only ones of their jobs."""
    alone, invalid, part, whole = line(f1=8, f11=2), line(f1=10, f4=-1, f11=3), line(f11=2), line()
    log = parse_swf([alone, invalid, part, whole, line(f1=9, f4=-1)])
    assert [job.job_number for job in log.jobs] == [JOB.job_number, 8]
    assert (log.partial, [problem.line for problem in log.problems]) == (1, [2, 5])


@given(
    st.lists(
        st.one_of(
            st.just(LINE),
            st.text(),
            st.just(HEADER),
            st.lists(st.integers() | st.floats(), min_size=18, max_size=18).map(lambda some: " ".join(map(str, some))),
        )
    )
)
def test_no_damage_is_fatal(lines: list[str]) -> None:
    """The jobs that are read can be simulated, and each has a number of its own."""
    log = parse_swf(lines)
    assert LINE not in lines or JOB.job_number in log.jobs.job_numbers()
    assert len(set(log.jobs.job_numbers())) == len(log.jobs)
    assert len(build_tasks(log.jobs)) == len(log.jobs)


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz", "anything"])
def test_files_are_text_or_gzip_whatever_their_names(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress((HEADER + LINE).encode()) if name != "log.swf" else (HEADER + LINE).encode())
    assert list(read_swf(file).jobs) == [JOB]


def test_a_truncated_file_is_read_up_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "log.swf.gz"
    whole = gzip.compress("".join(line(f1=number, f2=number * 7919 % 1000) + "\n" for number in range(9999)).encode())
    file.write_bytes(whole[: len(whole) // 2])
    log = read_swf(file)
    assert 100 < len(log.jobs) < 9999
    assert [entry.field for entry in log.problems] == ["file"]
    assert log.problems[0].line == len(log.jobs) + 1


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_swf(tmp_path / "log.swf")


# --- as tasks


def test_tasks_are_in_the_order_of_submission_and_then_of_their_numbers() -> None:
    jobs = LoggedJobs(
        [JOB._replace(job_number=3), JOB._replace(job_number=2), JOB._replace(job_number=9, submit_time=1)]
    )
    assert [(entry.job.serial, entry.job.name) for entry in build_tasks(jobs)] == [(0, "9"), (1, "2"), (2, "3")]


def test_with_exact_run_times_a_job_declares_its_run_time() -> None:
    """A job without length declares the shortest possible run time."""
    jobs = LoggedJobs([JOB, JOB._replace(run_time=0)])
    assert [entry.job.walltime for entry in build_tasks(jobs)] == [60, 60]
    assert [entry.job.walltime for entry in build_tasks(jobs, exact=True)] == [30, 1]
