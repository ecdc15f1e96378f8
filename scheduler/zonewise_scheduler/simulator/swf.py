"""Logs in the Standard Workload Format, version 2 (Chapin et al., JSSPP 1999), as text or gzip.

Each line describes a job with 18 numbers, -1 if unknown. This module reads 1 job number, 2 submit time, 3 wait time, 4
run time, 5 allocated processors and 8 requested processors. It also reads 9 requested time (the walltime), 11 status,
12 user, 14 executable and 15 queue. Lines that begin with ";" are comments. The header gives the size of the machine as
MaxProcs, or else as MaxNodes.
"""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from zonewise_scheduler.simulator.number_column import NumberColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_GZIP = b"\x1f\x8b"
_FIELDS = 18
_NAMES = {
    1: "job number", 2: "submit time", 3: "wait time", 4: "run time", 5: "allocated processors",
    8: "requested processors", 9: "requested time", 11: "status", 12: "user", 14: "executable", 15: "queue",
}  # fmt: skip
_COLUMNS = tuple(field - 1 for field in _NAMES)
_MAX_SECONDS = 2**53
"""Beyond this, a float cannot represent every second."""
_MAX_IDENTIFIER = 2**63 - 1
"""Identifiers are stored in 64 bits."""
_WHOLE = frozenset(_NAMES) - {2, 3, 4, 9}
"""Fields that are not times, and so have no fractions."""
_STATUS = tuple(_NAMES).index(11)
_PARTIAL = frozenset({2, 3, 4})
"""Status of a part of a suspended or checkpointed job, if the log also has a line for the whole job. On Sandia Ross,
2 is an exit code of whole jobs."""
SIZES = ("MaxProcs", "MaxNodes")
"""Header fields with the size of the machine; the first one that is known counts."""
_UNKNOWN_SIZES = ("", "0", "-1")
_MAX_DIGITS = 20
"""Maximum number of digits of a size; a longer number is truncated, and is still too large for a machine."""


class LoggedJob(NamedTuple):
    """A job of a log; times in seconds since the start of the log."""

    job_number: int
    submit_time: float
    wait_time: float
    """-1 if unknown."""
    run_time: float
    processors: int
    """Allocated processors, or requested ones if those are unknown."""
    requested_time: float
    """The walltime; infinite if unknown."""
    user: int
    executable: int
    queue: int


class LoggedJobs(Sequence[LoggedJob]):
    """Jobs of a log as columns: 76 bytes each, compared with 500 for an object. Items are created on access."""

    __slots__ = ("_executables", "_numbers", "_queues", "_users", "processors", "requested", "run", "submitted", "wait")

    def __init__(self, jobs: Iterable[LoggedJob] = ()) -> None:
        self._numbers, self._users = array("q"), array("q")
        self._executables, self._queues = array("q"), array("q")
        self.submitted, self.wait, self.run, self.requested = (NumberColumn() for _ in range(4))
        """Fields of LoggedJob by index, like the processors."""
        self.processors = array("q")
        for job in jobs:
            self.append(job)

    def append(self, job: LoggedJob) -> None:
        """Add a job."""
        self._numbers.append(job.job_number)
        self.submitted.append(job.submit_time)
        self.wait.append(job.wait_time)
        self.run.append(job.run_time)
        self.processors.append(job.processors)
        self.requested.append(job.requested_time)
        self._users.append(job.user)
        self._executables.append(job.executable)
        self._queues.append(job.queue)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> LoggedJob: ...

    @overload
    def __getitem__(self, index: slice) -> LoggedJobs: ...

    def __getitem__(self, index: int | slice) -> LoggedJob | LoggedJobs:
        if isinstance(index, slice):
            return LoggedJobs(self[row] for row in range(*index.indices(len(self))))
        row = range(len(self))[index]
        return LoggedJob(
            self._numbers[row], self.submitted[row], self.wait[row], self.run[row], self.processors[row],
            self.requested[row], self._users[row], self._executables[row], self._queues[row],
        )  # fmt: skip

    def job_numbers(self) -> Sequence[int]:
        """Return the job numbers by index."""
        return self._numbers

    def by_submission(self) -> Sequence[int]:
        """Return the indices by time of submission, then by job number, then in the order of the file."""
        order = np.lexsort((np.array(self._numbers), self.submitted.floats(len(self))))
        return array("q", order.astype(np.int64).tobytes())


class SwfProblem(NamedTuple):
    """A line that is ignored."""

    line: int
    """Line number, starting at 1."""
    field: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: {self.message}"


class SwfLog(NamedTuple):
    """The contents of a log."""

    jobs: LoggedJobs
    """Jobs in file order; those with the status of a part follow."""
    processors: int | None
    """Number of processors of the machine; None if the header has no valid size."""
    problems: list[SwfProblem]
    partial: int
    """Number of lines for parts of jobs, which are skipped because the log also has lines for the whole jobs."""


def read_swf(path: Path) -> SwfLog:
    """Read a log. Raises OSError if it cannot be opened."""
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP
    with gzip.open(path) if compressed else path.open("rb") as file:
        return load_swf(file)


def load_swf(file: Iterable[bytes]) -> SwfLog:
    """Read a log from an open file. If compressed data are truncated, the lines before that still count."""
    return parse_swf(_lines(file))


def parse_swf(lines: Iterable[str | SwfProblem]) -> SwfLog:
    """Parse the lines of a log; damaged lines become problems."""
    log = SwfLog(LoggedJobs(), None, [], 0)
    job_lines = array("q")
    sizes: dict[str, int | None] = {}
    parts: list[tuple[int, Sequence[float]]] = []
    for number, line in enumerate(lines, 1):
        if isinstance(line, SwfProblem):
            log.problems.append(line._replace(line=number))
        elif line.startswith(";"):
            log.problems.extend(problem._replace(line=number) for problem in _header(line, sizes))
        elif line.strip():
            numbers = _numbers(line)
            if not isinstance(numbers, SwfProblem) and numbers[_STATUS] in _PARTIAL:
                parts.append((number, numbers))
            else:
                _add(log, job_lines, number, numbers)
    partial = _add_jobs_of_parts(log, job_lines, parts)
    jobs = _distinct_jobs(log, job_lines)
    log.problems.sort()
    processors = next((sizes[name] for name in SIZES if name in sizes), None)
    return log._replace(jobs=jobs, processors=processors, partial=partial)


def _add(log: SwfLog, job_lines: array[int], line: int, numbers: Sequence[float] | SwfProblem) -> None:
    """Add the job of a line, and the line's number; or add the line's problem."""
    job = numbers if isinstance(numbers, SwfProblem) else _job(numbers)
    if isinstance(job, LoggedJob):
        log.jobs.append(job)
        job_lines.append(line)
    else:
        log.problems.append(job._replace(line=line))


def _add_jobs_of_parts(log: SwfLog, job_lines: array[int], parts: Sequence[tuple[int, Sequence[float]]]) -> int:
    """Add the lines with the status of a part for which there is no whole job; return the number of the others."""
    whole_jobs = frozenset(log.jobs.job_numbers()) if parts else frozenset[int]()
    jobs = [(line, numbers) for line, numbers in parts if numbers[0] not in whole_jobs]
    for line, numbers in jobs:
        _add(log, job_lines, line, numbers)
    return len(parts) - len(jobs)


def _distinct_jobs(log: SwfLog, job_lines: array[int]) -> LoggedJobs:
    """Return the jobs without those whose number an earlier one has, which become problems."""
    numbers = np.array(log.jobs.job_numbers())
    first_rows = np.unique(numbers, return_index=True)[1]
    if first_rows.size == numbers.size:
        return log.jobs
    duplicates: list[int] = np.setdiff1d(np.arange(numbers.size), first_rows).tolist()
    for row in duplicates:
        problem = f"{log.jobs[row].job_number}: duplicate: the first one counts"
        log.problems.append(SwfProblem(job_lines[row], _field(1), problem))
    distinct: list[int] = np.sort(first_rows).tolist()
    return LoggedJobs(log.jobs[row] for row in distinct)


def _lines(file: Iterable[bytes]) -> Iterator[str | SwfProblem]:
    """Yield the lines, and a problem if compressed data are truncated."""
    try:
        for line in file:
            yield line.decode("ascii", "replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        yield SwfProblem(0, "file", str(error))


def _header(line: str, sizes: dict[str, int | None]) -> Iterator[SwfProblem]:
    """Read a size of the machine; None: its value is invalid, which is a problem."""
    name, _, value = line[1:].partition(":")
    name, text = name.strip(), next(iter(value.split()), "")
    if name not in SIZES or text in _UNKNOWN_SIZES:
        return
    size = int(text[:_MAX_DIGITS]) if text.isdecimal() else None
    if size is None:
        yield SwfProblem(0, name, f"{text!r} is not a number")
    elif sizes.get(name, size) != size:
        yield SwfProblem(0, name, f"{size}: duplicate: the first one counts")
    sizes.setdefault(name, size)


def _job(numbers: Sequence[float]) -> LoggedJob | SwfProblem:
    """Return the job in a line, or its problem."""
    number, submitted, wait, run, allocated, requested, limit, _, user, executable, queue = numbers
    processors = int(allocated if allocated > 0 else requested)
    for field, value in ((2, submitted), (4, run), (5, processors - 1), (9, max(limit, 0))):
        if not 0 <= value <= _MAX_SECONDS:
            return _invalid(field, numbers[_COLUMNS.index(field - 1)])
    for field, value in ((1, number), (3, wait), (12, user), (14, executable), (15, queue)):
        if abs(value) > _MAX_IDENTIFIER:
            return _invalid(field, value)
    return LoggedJob(
        int(number), submitted, wait, run, processors, limit if limit > 0 else inf,
        int(user), int(executable), int(queue),
    )  # fmt: skip


def _numbers(line: str) -> Sequence[float] | SwfProblem:
    """Return the fields that this module reads; they are nearly always integers."""
    fields = line.split()
    if len(fields) != _FIELDS:
        return SwfProblem(0, "line", f"{len(fields)} fields rather than {_FIELDS}")
    if "_" not in line:  # Python reads 1_0 as 10
        try:
            return [int(fields[column]) for column in _COLUMNS]
        except ValueError:
            pass
    numbers: list[float] = []
    for field in _NAMES:
        text = fields[field - 1]
        try:
            number = float(text.replace("_", "?"))
        except ValueError:
            return SwfProblem(0, _field(field), f"{text!r} is not a number")
        if not isfinite(number) or (field in _WHOLE and not number.is_integer()):
            return _invalid(field, number)
        numbers.append(number)
    return numbers


def _invalid(field: int, value: float) -> SwfProblem:
    return SwfProblem(0, _field(field), f"{float(str(value)):g}")  # an integer that is too large becomes infinite


def _field(field: int) -> str:
    return f"field {field} ({_NAMES[field]})"
