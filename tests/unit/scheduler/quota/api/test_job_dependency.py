"""Dependencies between Jobs: the notation, and the state of each kind of dependency."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.api.job_dependency import (
    DEPENDENCY_ANNOTATION,
    FULFILLED_ANNOTATION,
    JobDependency,
    dependency_message,
    dependency_state,
    fulfilled_annotation,
    parse_dependency,
    read_dependencies,
    read_fulfilled,
)


def job(*conditions: str, status: str = "True") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": name, "status": status} for name in conditions]}}


def test_the_notation() -> None:
    assert parse_dependency("afterok:a:b,afterany:c,afternotok:d") == (
        JobDependency("afterok", "a"),
        JobDependency("afterok", "b"),
        JobDependency("afterany", "c"),
        JobDependency("afternotok", "d"),
    )


@pytest.mark.parametrize(
    "text", ["", "afterok", "afterok:", "after:a", "singleton", "afterok:A", "afterok:a?afterok:b"]
)
def test_an_invalid_dependency_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"dependenc|not a Job name"):
        parse_dependency(text)


@pytest.mark.parametrize(
    ("kind", "complete", "failed"),
    [("afterok", "fulfilled", "never"), ("afterany", "fulfilled", "fulfilled"), ("afternotok", "never", "fulfilled")],
)
def test_when_a_dependency_is_satisfied(kind: Any, complete: str, failed: str) -> None:
    dependency = JobDependency(kind, "a")
    assert dependency_state(dependency, None) == "waits"
    assert dependency_state(dependency, {}) == "waits"
    for status in ("False", "Unknown"):
        assert dependency_state(dependency, job("Complete", "Failed", status=status)) == "waits"
    assert dependency_state(dependency, job("SuccessCriteriaMet")) == "waits"
    assert dependency_state(dependency, job("Complete")) == complete
    assert dependency_state(dependency, job("Failed")) == failed


def test_the_message_names_the_job_and_what_it_must_do() -> None:
    ok, not_ok, any_end = (JobDependency(kind, "a") for kind in ("afterok", "afternotok", "afterany"))
    assert dependency_message(ok, job()) == "waits for Job a to succeed"
    assert dependency_message(not_ok, None) == "waits for Job a to fail, which does not exist"
    assert dependency_message(any_end, job()) == "waits for Job a to end"
    assert dependency_message(ok, job("Failed")) == "Job a has failed, so it never starts: `zonewise cancel` removes it"
    assert dependency_message(not_ok, job("Complete")).startswith("Job a has succeeded, so it never starts")
    assert dependency_message(ok, job("Complete")) == dependency_message(any_end, job("Failed")) == ""


def test_the_annotation() -> None:
    def annotated(text: str) -> dict[str, Any]:
        return {"metadata": {"annotations": {DEPENDENCY_ANNOTATION: text}}}

    assert read_dependencies({}) == ()
    assert read_dependencies(annotated("afterok:a")) == (JobDependency("afterok", "a"),)
    with pytest.raises(FieldError, match=r"metadata\.annotations\.zonewise\.dev/dependency"):
        read_dependencies(annotated("soon"))


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
DEPENDENCIES = st.builds(JobDependency, st.sampled_from(["afterok", "afterany", "afternotok"]), NAMES)


@given(st.lists(DEPENDENCIES, min_size=1))
def test_noted_dependencies_are_those_of_one_job(dependencies: list[JobDependency]) -> None:
    """A copy of the Job has another UID, and none of its dependencies is fulfilled."""
    noted = fulfilled_annotation({"metadata": {"uid": "u"}}, dependencies)
    for uid, expected in (("u", frozenset(dependencies)), ("v", frozenset[JobDependency]())):
        assert read_fulfilled({"metadata": {"uid": uid, "annotations": {FULFILLED_ANNOTATION: noted}}}) == expected


@pytest.mark.parametrize("text", ["", "u", "u ", "u soon", "afterok:a", " afterok:a"])
def test_an_unreadable_note_is_none(text: str) -> None:
    assert read_fulfilled({"metadata": {"uid": "u", "annotations": {FULFILLED_ANNOTATION: text}}}) == frozenset()
    assert read_fulfilled({"metadata": {"annotations": {FULFILLED_ANNOTATION: text}}}) == frozenset()
