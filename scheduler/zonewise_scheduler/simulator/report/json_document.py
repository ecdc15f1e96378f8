"""A simulation as one JSON document, `zonewise simulate --json`.

Seconds, bytes, CPUs and counts, as numbers; shares are of one. What is unknown, unlimited or never is null. Keys are
the fields of Summary, JobHistory and Rules in camelCase:

    schemaVersion   "zonewise.dev/simulation/v1": fields may be added to it, none is renamed, removed or measured anew
    scenario        trace, name, jobs, capacity by resource, options as given, and what was left out of the trace:
                    problems (a sentence each), partial (lines of parts of jobs that have a line of the whole)
    results         for each policy, in the order asked for:
        policy      its name, and rules
        decisions, seconds      how many there were, and the CPU time that all of it took
        summary     of all jobs; forecast and promises are null where there were none
        kinds       the same for the jobs of each kind, by its name
        jobs        with --json-jobs: each job, by time of submission; wait is until the run that it was done with, why
                    is what stands in the way of one that has not run
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from json import JSONEncoder
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.simulator.history import JobHistory
    from zonewise_scheduler.simulator.report.result import PolicyResult, TraceInfo

    Json: TypeAlias = dict[str, "Json"] | list["Json"] | Iterator["Json"] | str | int | float | None
    Object: TypeAlias = dict[str, Json]

SCHEMA_VERSION = "zonewise.dev/simulation/v1"

_TOLD = ("earliest", "likely", "latest")
_LEVELS = 4
"""Document, results, a result, its jobs: below them, everything is on one line."""


def build_document(subject: TraceInfo, results: Sequence[PolicyResult], *, with_jobs: bool = False) -> Object:
    """Return the document, of one result or more, as values that JSON has, but for the jobs, which come one by one."""
    first = results[0].history
    return {
        "schemaVersion": SCHEMA_VERSION,
        "scenario": {
            "trace": subject.trace,
            "name": subject.name,
            "jobs": len(first.jobs),
            "capacity": _amounts(first.capacity),
            "options": {_camel(name): _plain(value) for name, value in subject.options.items()},
            "problems": list(subject.problems),
            "partial": subject.partial,
        },
        "results": [_result(result, with_jobs=with_jobs) for result in results],
    }


def render(document: Object) -> Iterator[str]:
    """Yield the document as JSON text, piece by piece, that ends in a newline, a job on each line: ASCII.

    A job is written whole by the C encoder; `json.dumps(indent=...)` runs in Python and is ten times slower. And of
    jobs no more than one is text at a time: there may be hundreds of thousands.
    """
    yield from _text(document, JSONEncoder(allow_nan=False), _LEVELS, "\n")
    yield "\n"


def _result(result: PolicyResult, *, with_jobs: bool) -> Object:
    made: Object = {
        "policy": result.policy,
        "rules": {
            **_fields(result.rules),
            "depth": None if result.rules.depth == UNLIMITED_DEPTH else result.rules.depth,
        },
        "decisions": result.history.decisions,
        "seconds": result.history.seconds,
        "summary": _fields(result.summary),
        "kinds": {kind: _fields(summary) for kind, summary in result.kinds.items()},
    }
    if with_jobs:
        made["jobs"] = map(_job, result.history.jobs)
    return made


def _job(job: JobHistory) -> Object:
    promised: Json = None if job.promised is None else {"at": job.promised[0], "start": _plain(job.promised[1])}
    told: Json = None
    if job.told is not None:
        told = {name: _plain(start) for name, start in zip(_TOLD, job.told, strict=True)}
    return {**_fields(job), "amounts": _amounts(job.amounts), "promised": promised, "told": told, "wait": job.wait}


def _amounts(amounts: Mapping[str, int]) -> Object:
    """Return amounts in the units of people: CPUs rather than thousandths of them."""
    return {name: size / 1000 if name == "cpu" else size for name, size in amounts.items()}


def _fields(value: NamedTuple) -> Object:
    return {_camel(name): _plain(part) for name, part in value._asdict().items()}


def _plain(value: object) -> Json:
    """Return a value of ours as JSON has it."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, tuple):
        parts = cast("tuple[object, ...]", value)
        return _fields(cast("NamedTuple", parts)) if hasattr(parts, "_fields") else [_plain(part) for part in parts]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in cast("dict[str, object]", value).items()}
    return cast("Json", value)


@cache
def _camel(name: str) -> str:
    return re.sub("_([a-z0-9])", lambda found: found[1].upper(), name)


def _text(value: Json, encoder: JSONEncoder, levels: int, line: str) -> Iterator[str]:
    """Yield a value, its parts down to so many levels on lines of their own that begin so."""
    deeper = line + "  "
    if levels and value and isinstance(value, dict):
        parts = ((f"{encoder.encode(name)}: ", part) for name, part in value.items())
        yield from _lines("{}", parts, encoder, levels, deeper)
    elif levels and value and isinstance(value, list | Iterator):
        yield from _lines("[]", (("", part) for part in value), encoder, levels, deeper)
    else:
        yield encoder.encode(value)


def _lines(
    brackets: str, parts: Iterable[tuple[str, Json]], encoder: JSONEncoder, levels: int, line: str
) -> Iterator[str]:
    """Yield parts with what is before each, between brackets; none is an empty pair of them."""
    begin = brackets[0]
    for head, part in parts:
        yield f"{begin}{line}{head}"
        yield from _text(part, encoder, levels - 1, line)
        begin = ","
    yield brackets if begin == brackets[0] else f"{line[:-2]}{brackets[1]}"
