"""Events about a job: the time, the object that an Event involves, and which Events repeat others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.client.time_text import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.client.jobs.job_facts import JobFacts


_WORD = re.compile(r"[\w.-]*\w")


class RepeatedEvent(NamedTuple):
    """The newest of several Events that differ only in the names of pods."""

    time: float
    """In seconds since 1970."""
    observations: int
    """How often they were observed, all together."""
    event: Mapping[str, Any]


def merge_repeated(events: Iterable[Mapping[str, Any]], pods: re.Pattern[str]) -> list[RepeatedEvent]:
    """Return Events without repetitions, from old to new; the pattern matches the names of a job's pods.

    A Job that cannot create its pods gets an Event for each attempt, and each attempt has another random name.
    """
    newest: dict[tuple[str, str], RepeatedEvent] = {}
    for event in sorted(events, key=event_time):
        message = _WORD.sub(lambda word: "" if pods.fullmatch(word[0]) else word[0], str(event.get("message", "")))
        key = str(event.get("reason", "")), message
        before = newest.pop(key).observations if key in newest else 0
        newest[key] = RepeatedEvent(event_time(event), before + _count(event), event)
    return list(newest.values())


def involved_name(event: Mapping[str, Any]) -> str:
    """Return the name of the object that an Event involves."""
    involved: Mapping[str, Any] = event.get("involvedObject") or {}
    return str(involved.get("name", ""))


def event_time(event: Mapping[str, Any]) -> float:
    """Return when an Event was last observed, in seconds since 1970; 0 if it does not contain the time."""
    series: Mapping[str, Any] = event.get("series") or {}
    metadata: Mapping[str, Any] = event.get("metadata") or {}
    candidates = (
        series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"),
        metadata.get("creationTimestamp"),
    )  # fmt: skip
    return next((time for time in map(parse_time, candidates) if time is not None), 0.0)


def is_about_an_earlier_job(event: Mapping[str, Any], job: JobFacts) -> bool:
    """Return whether an Event is about another object with a job's name, such as a deleted one."""
    involved: Mapping[str, Any] = event.get("involvedObject") or {}
    return bool(job.uid and involved.get("uid") and involved.get("name") == job.name and involved["uid"] != job.uid)


def _count(event: Mapping[str, Any]) -> int:
    series: Mapping[str, Any] = event.get("series") or {}
    return series.get("count") or event.get("count") or 1
