"""Conditions of a Workload (apimachinery pkg/api/meta/conditions.go SetStatusCondition)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.dates import utc_date
from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.tolerant import sound_object, sound_objects
from zonewise_common.kube.events import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.controller.types import Json

MAX_MESSAGE = 32768
"""Characters of the message of a condition (apimachinery pkg/apis/meta/v1/types.go Condition)."""


class Condition(NamedTuple):
    """A condition that an object shall have."""

    type: str
    holds: bool
    reason: str
    message: str = ""


def api_time(seconds: float) -> str:
    """Return a time in seconds since 1970 as the API has it, to the second; the last one that it has for later ones."""
    return timestamp(utc_date(seconds))


def conditions_of(workload: Mapping[str, object]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of an object; invalid ones are left out."""
    problems: list[str] = []
    conditions = sound_object(workload.get("status"), "status", problems).get("conditions")
    return (condition for _, condition in sound_objects(conditions, "status.conditions", problems))


def find_condition(workload: Mapping[str, object], condition_type: str) -> Mapping[str, Any] | None:
    """Return a condition of an object; None where there is none of the type."""
    return next((item for item in conditions_of(workload) if item.get("type") == condition_type), None)


def is_true(workload: Mapping[str, object], condition_type: str) -> bool:
    """Tell whether a condition of an object is true."""
    condition = find_condition(workload, condition_type)
    return condition is not None and condition.get("status") == "True"


def transition_time(condition: Mapping[str, object]) -> float | None:
    """Return since when a condition has its status, in seconds since 1970; None where it is unknown."""
    return FieldReader(condition, "", []).time("lastTransitionTime")


def condition_time(workload: Mapping[str, object], condition_type: str) -> float | None:
    """Return since when a condition of an object has its status; None where there is none, or the time is unknown."""
    return transition_time(find_condition(workload, condition_type) or {})


def message_of(workload: Mapping[str, object], condition_type: str) -> str:
    """Return the message of a condition of an object, whatever its status; "" where there is none."""
    return str((find_condition(workload, condition_type) or {}).get("message", ""))


def with_conditions(workload: Mapping[str, object], changes: Iterable[Condition], now: float) -> list[Json]:
    """Return all conditions of an object after some change.

    A condition keeps its time unless its status changes. Reason, message and generation are those of the change.
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
