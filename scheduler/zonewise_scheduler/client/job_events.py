"""Events about a job: the time, and the object that an Event involves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.client.time_text import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.client.job_facts import JobFacts


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
