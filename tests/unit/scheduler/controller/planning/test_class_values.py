"""New values of WorkloadPriorityClasses are noticed once, for the Workloads of the class."""

from __future__ import annotations

from typing import Any

from zonewise_scheduler.controller.planning.class_values import ClassValues

Json = dict[str, Any]


def workload(name: str, kind: str = "WorkloadPriorityClass") -> Json:
    return {"spec": {"priorityClassRef": {"kind": kind, "name": name}}}


WORKLOADS: dict[str, Json] = {
    "a": workload("low"),
    "b": workload("high"),
    "c": workload("low", "PriorityClass"),
    "d": {"spec": {}},
}


def due(classes: ClassValues, *workloads: str) -> list[int | None]:
    return [classes.new_priority(key, WORKLOADS[key]) for key in workloads]


def test_a_value_is_due_until_a_workload_shows_it() -> None:
    classes = ClassValues()
    values = {"low": 1, "high": 9}
    assert classes.update(values, WORKLOADS) == ["a", "b"]
    assert classes.update(values, WORKLOADS) == []
    assert due(classes, "a", "b", "c", "d") == [1, 9, None, None]
    classes.forget("a")
    classes.forget("b")
    assert classes.update({"low": 5, "high": 9}, WORKLOADS) == ["a"]
    assert due(classes, "a", "b") == [5, None]


def test_the_value_is_that_of_the_current_class() -> None:
    classes = ClassValues()
    classes.update({"low": 1, "high": 9}, WORKLOADS)
    assert classes.new_priority("a", workload("high")) == 9
    assert classes.new_priority("a", workload("missing")) is None


def test_a_class_that_is_created_again() -> None:
    classes = ClassValues()
    classes.update({"low": 1}, WORKLOADS)
    assert classes.update({}, WORKLOADS) == []
    assert classes.update({"low": 1}, WORKLOADS) == ["a"]
