"""A simulation as one JSON document, `zonewise simulate --json`.

Seconds, bytes, CPUs and counts are numbers; shares are fractions of one. Unknown, unlimited and never are null. Keys
are the fields of Summary, JobHistory and BackfillPolicy in camelCase, except those in _JOB_KEYS and _SUMMARY_KEYS:

    schemaVersion   "zonewise.dev/simulation/v1": fields may be added; none is renamed, removed or redefined
    scenario        trace, name, jobs, capacity by resource, options of the command, and problems of the trace:
                    problems (a sentence each), partial (lines of parts of jobs that also have a whole line)
    results         for each policy, in the order of the command:
        policy      its name, and rules
        decisions, seconds      the number of decisions, and the CPU time of the simulation
        summary     of all jobs; forecast and `promises` (reservations) are null if there were none
        kinds       the same for the jobs of each kind, by name
        jobs        with --json-jobs: each job, by time of submission. wait: until the start of the completed run;
                    `promised`: the first reservation with a known start; `told`: the forecast;
                    `why`: why an unfinished job is pending
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

_FORECAST_FIELDS = ("earliest", "likely", "latest")
_JOB_KEYS = {"walltime": "limit", "reservation": "promised", "forecast": "told", "explanation": "why"}
_SUMMARY_KEYS = {"rejected": "refused", "reservations": "promises"}
_NO_KEYS: Mapping[str, str] = {}
"""Keys of the schema that differ from the names of the fields."""
_LEVELS = 4
"""Levels on separate lines: document, results, a result, its jobs. Below them, everything is on one line."""


def build_document(subject: TraceInfo, results: Sequence[PolicyResult], *, with_jobs: bool = False) -> Object:
    """Return the document of one or more results as JSON values; jobs are an iterator."""
    first = results[0].history
    return {
        "schemaVersion": SCHEMA_VERSION,
        "scenario": {
            "trace": subject.trace,
            "name": subject.name,
            "jobs": len(first.jobs),
            "capacity": _amounts(first.capacity),
            "options": options_object(subject.options),
            "problems": list(subject.problems),
            "partial": subject.partial,
        },
        "results": [_result(result, with_jobs=with_jobs) for result in results],
    }


def options_object(options: Mapping[str, object]) -> Object:
    """Return options of the command by their names in camelCase."""
    return {camel_case(name): _plain(value) for name, value in options.items()}


def render(document: Object) -> Iterator[str]:
    """Yield the document as ASCII JSON text, piece by piece, with a job on each line and a newline at the end.

    The C encoder writes a whole job; `json.dumps(indent=...)` runs in Python and is ten times slower. Only one job is
    held as text at a time, since there may be hundreds of thousands.
    """
    yield from _text(document, JSONEncoder(allow_nan=False), _LEVELS, "\n")
    yield "\n"


def _result(result: PolicyResult, *, with_jobs: bool) -> Object:
    entry: Object = {
        "policy": result.policy,
        "rules": {
            **_fields(result.rules),
            "depth": None if result.rules.depth == UNLIMITED_DEPTH else result.rules.depth,
        },
        "decisions": result.history.decisions,
        "seconds": result.history.seconds,
        "summary": _fields(result.summary, _SUMMARY_KEYS),
        "kinds": {kind: _fields(summary, _SUMMARY_KEYS) for kind, summary in result.kinds.items()},
    }
    if with_jobs:
        entry["jobs"] = map(_job, result.history.jobs)
    return entry


def _job(job: JobHistory) -> Object:
    reservation: Json = (
        None if job.reservation is None else {"at": job.reservation[0], "start": _plain(job.reservation[1])}
    )
    forecast: Json = None
    if job.forecast is not None:
        forecast = {name: _plain(start) for name, start in zip(_FORECAST_FIELDS, job.forecast, strict=True)}
    return {
        **_fields(job, _JOB_KEYS),
        "amounts": _amounts(job.amounts),
        "promised": reservation,
        "told": forecast,
        "wait": job.wait,
    }


def _amounts(amounts: Mapping[str, int]) -> Object:
    """Return amounts with CPUs instead of milli-CPU; other resources are unchanged."""
    return {name: size / 1000 if name == "cpu" else size for name, size in amounts.items()}


def _fields(value: NamedTuple, keys: Mapping[str, str] = _NO_KEYS) -> Object:
    return {keys.get(name) or camel_case(name): _plain(part) for name, part in value._asdict().items()}


def _plain(value: object) -> Json:
    """Return a value as its JSON equivalent."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, tuple):
        parts = cast("tuple[object, ...]", value)
        return _fields(cast("NamedTuple", parts)) if hasattr(parts, "_fields") else [_plain(part) for part in parts]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in cast("dict[str, object]", value).items()}
    return cast("Json", value)


@cache
def camel_case(name: str) -> str:
    """Return a Python name as a key of the document: wait_mean as waitMean."""
    return re.sub("_([a-z0-9])", lambda match: match[1].upper(), name)


def _text(value: Json, encoder: JSONEncoder, levels: int, line: str) -> Iterator[str]:
    """Yield a value as JSON. Its parts down to `levels` are on separate lines, which begin with `line`."""
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
    """Yield parts with their keys between brackets; without parts, an empty pair of brackets."""
    separator = brackets[0]
    for key, part in parts:
        yield f"{separator}{line}{key}"
        yield from _text(part, encoder, levels - 1, line)
        separator = ","
    yield brackets if separator == brackets[0] else f"{line[:-2]}{brackets[1]}"
