"""Conditions of a Workload (apimachinery pkg/api/meta/conditions.go SetStatusCondition)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_common.k8s.dates import utc_date
from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.tolerant import sound_object, sound_objects
from zonewise_common.kube.events import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.controller.types import Json

MAX_MESSAGE = 32768
"""Maximum number of characters in a condition's message (apimachinery pkg/apis/meta/v1/types.go Condition)."""


class Condition(NamedTuple):
    """A condition that an object is to have."""

    type: str
    holds: bool
    reason: str
    message: str = ""


def api_time(seconds: float) -> str:
    """Return a time (seconds since 1970) in the API's format, in whole seconds and limited to the API's range."""
    return timestamp(utc_date(seconds))


def conditions_of(workload: Mapping[str, object]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of an object; invalid ones are omitted."""
    problems: list[str] = []
    conditions = sound_object(workload.get("status"), "status", problems).get("conditions")
    return (condition for _, condition in sound_objects(conditions, "status.conditions", problems))


def find_condition(workload: Mapping[str, object], condition_type: str) -> Mapping[str, Any] | None:
    """Return a condition of an object; None if it has none of this type."""
    status = workload.get("status")
    conditions: object = cast("Json", status).get("conditions") if isinstance(status, dict) else None
    if isinstance(conditions, list):
        for item in cast("list[object]", conditions):  # a plain loop, since each step does this for each object
            if isinstance(item, dict) and cast("Json", item).get("type") == condition_type:
                return cast("Json", item)
    return None


def is_true(workload: Mapping[str, object], condition_type: str) -> bool:
    """Return whether a condition of an object is true."""
    condition = find_condition(workload, condition_type)
    return condition is not None and condition.get("status") == "True"


def transition_time(condition: Mapping[str, object]) -> float | None:
    """Return when a condition got its current status, in seconds since 1970; None if unknown."""
    return FieldReader(condition, "", []).time("lastTransitionTime")


def condition_time(workload: Mapping[str, object], condition_type: str) -> float | None:
    """Return when a condition of an object got its current status; None if it is absent or the time is unknown."""
    return transition_time(find_condition(workload, condition_type) or {})


def message_of(workload: Mapping[str, object], condition_type: str) -> str:
    """Return the message of a condition of an object, whatever its status; "" if it is absent."""
    return str((find_condition(workload, condition_type) or {}).get("message", ""))


def with_conditions(workload: Mapping[str, object], changes: Iterable[Condition], now: float) -> list[Json]:
    """Return all conditions of an object after some of them change.

    A condition keeps its time unless its status changes. The change sets its reason, message and generation.
    """
    generation = FieldReader(workload, "", []).child("metadata").count("generation", 0) or 0
    conditions = {str(item.get("type")): dict(item) for item in conditions_of(workload)}
    for change in changes:
        status = "True" if change.holds else "False"
        observed = conditions.get(change.type, {})
        is_same = observed.get("status") == status and observed.get("lastTransitionTime")
        conditions[change.type] = {
            "type": change.type,
            "status": status,
            "reason": change.reason,
            "message": change.message[:MAX_MESSAGE],
            "observedGeneration": generation,
            "lastTransitionTime": observed["lastTransitionTime"] if is_same else api_time(now),
        }
    return list(conditions.values())
