"""Which Jobs wait for others, and which are checked again when one of these changes."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.reconcile.dependent_jobs import DependentJobs
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_dependency import DEPENDENCY_ANNOTATION

Json = dict[str, Any]


def key(name: str) -> ObjectKey:
    return ObjectKey(JOBS, "ns", name)


def job(dependency: str = "", condition: str = "") -> Json:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    annotations = {DEPENDENCY_ANNOTATION: dependency} if dependency else {}
    return {"metadata": {"annotations": annotations}, "status": {"conditions": conditions}}


def test_a_job_waits_until_all_dependencies_hold() -> None:
    observed = {key("a"): job(), key("b"): job(condition="Failed")}
    jobs = DependentJobs(observed.get)
    train = job("afterok:a,afterany:b")
    assert jobs.waits(key("train"), train)
    assert jobs.waiting == {key("train"): "waits for Job a to succeed"}
    observed[key("a")] = job(condition="Complete")
    assert not jobs.waits(key("train"), train)
    assert not jobs.waits(key("other"), job())


def test_a_dependency_may_not_exist_yet() -> None:
    assert DependentJobs(lambda _: None).waits(key("train"), job("afterany:later"))


def test_dependents_are_checked_again() -> None:
    jobs = DependentJobs(lambda _: None)
    assert list(jobs.change(key("train"), job("afterok:a:b"))) == []
    assert list(jobs.change(key("eval"), job("afterok:a"))) == []
    assert list(jobs.change(key("a"), job())) == [key("train"), key("eval")]
    assert list(jobs.change(key("b"), None)) == [key("train")]
    assert list(jobs.change(ObjectKey(JOBS, "other", "a"), job())) == []


def test_changed_and_deleted_dependencies_are_forgotten() -> None:
    jobs = DependentJobs(lambda _: None)
    jobs.change(key("train"), job("afterok:a"))
    jobs.change(key("train"), job("afterok:b"))
    assert list(jobs.change(key("a"), job())) == []
    assert jobs.waits(key("train"), job("afterok:b"))
    jobs.change(key("train"), None)
    assert list(jobs.change(key("b"), job())) == []
    assert jobs.waiting == {}


def test_an_invalid_annotation_is_named_in_the_error() -> None:
    jobs = DependentJobs(lambda _: None)
    assert list(jobs.change(key("train"), job("soon"))) == []
    with pytest.raises(FieldError, match="is not a dependency"):
        jobs.waits(key("train"), job("soon"))
