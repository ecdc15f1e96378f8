"""Dependencies between Jobs: the notation, and the state of each kind of dependency."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.api.job_dependency import (
    DEPENDENCY_ANNOTATION,
    JobDependency,
    dependency_state,
    parse_dependency,
    read_dependencies,
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


def test_the_annotation() -> None:
    def annotated(text: str) -> dict[str, Any]:
        return {"metadata": {"annotations": {DEPENDENCY_ANNOTATION: text}}}

    assert read_dependencies({}) == ()
    assert read_dependencies(annotated("afterok:a")) == (JobDependency("afterok", "a"),)
    with pytest.raises(FieldError, match=r"metadata\.annotations\.zonewise\.dev/dependency"):
        read_dependencies(annotated("soon"))
