"""Which Jobs wait for others, and which are checked again when one of these changes."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.reconcile.dependent_jobs import DependentJobs
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_dependency import DEPENDENCY_ANNOTATION, FULFILLED_ANNOTATION

Json = dict[str, Any]


def key(name: str) -> ObjectKey:
    return ObjectKey(JOBS, "ns", name)


def job(dependency: str = "", condition: str = "", noted: str = "") -> Json:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    annotations = {DEPENDENCY_ANNOTATION: dependency} if dependency else {}
    annotations |= {FULFILLED_ANNOTATION: noted} if noted else {}
    return {"metadata": {"uid": "u", "annotations": annotations}, "status": {"conditions": conditions}}


def test_a_job_waits_until_all_dependencies_hold() -> None:
    observed = {key("a"): job(), key("b"): job(condition="Failed")}
    jobs = DependentJobs(observed.get)
    train = job("afterok:a,afterany:b")
    assert jobs.progress(key("train"), train) == (True, "u afterany:b")
    assert jobs.waiting == {key("train"): "waits for Job a to succeed"}
    observed[key("a")] = job(condition="Complete")
    assert jobs.progress(key("train"), train) == (False, "u afterok:a,afterany:b")
    noted = job("afterok:a,afterany:b", noted="u afterok:a,afterany:b")
    assert jobs.progress(key("train"), noted) == (False, "")
    assert jobs.progress(key("other"), job()) == (False, "")


def test_a_dependency_may_not_exist_yet() -> None:
    assert DependentJobs(lambda _: None).progress(key("train"), job("afterany:later")) == (True, "")


def test_a_job_may_be_deleted_once_it_has_ended() -> None:
    observed = {key("b"): job()}
    jobs = DependentJobs(observed.get)
    jobs.change(key("train"), None, job("afterok:a:b"))
    jobs.change(key("a"), job(condition="Complete"), None)
    assert jobs.progress(key("train"), job("afterok:a:b")) == (True, "u afterok:a")
    assert jobs.waiting == {key("train"): "waits for Job b to succeed"}
    noted = job("afterok:a:b", noted="u afterok:a")
    jobs.change(key("a"), None, job())  # another Job of that name
    assert jobs.progress(key("train"), noted) == (True, "")
    assert jobs.progress(key("train"), job("afterok:a:b")) == (True, "")


def test_deleted_jobs_are_forgotten_with_those_that_depend_on_them() -> None:
    jobs = DependentJobs(lambda _: None)
    jobs.change(key("train"), None, job("afterok:a"))
    jobs.change(key("a"), job(condition="Complete"), None)
    jobs.change(key("train"), job("afterok:a"), None)
    assert jobs.progress(key("train"), job("afterok:a")) == (True, "")


def test_a_deleted_job_is_forgotten_once_its_end_is_noted() -> None:
    jobs = DependentJobs(lambda _: None)
    jobs.change(key("train"), None, job("afterok:a"))
    jobs.change(key("a"), job(condition="Complete"), None)
    jobs.change(key("train"), job("afterok:a"), job("afterok:a", noted="u afterok:a"))
    assert jobs.progress(key("other"), job("afterok:a")) == (True, "")
    assert list(jobs.change(key("a"), None, job())) == [], "nothing that happens to another Job of that name matters"


def test_dependents_are_checked_again() -> None:
    jobs = DependentJobs(lambda _: None)
    assert list(jobs.change(key("train"), None, job("afterok:a:b"))) == []
    assert list(jobs.change(key("eval"), None, job("afterok:a"))) == []
    assert list(jobs.change(key("a"), None, job())) == [key("train"), key("eval")]
    assert list(jobs.change(key("b"), job(), None)) == [key("train")]
    assert list(jobs.change(ObjectKey(JOBS, "other", "a"), None, job())) == []


def test_changed_and_deleted_dependencies_are_forgotten() -> None:
    jobs = DependentJobs(lambda _: None)
    jobs.change(key("train"), None, job("afterok:a"))
    jobs.change(key("train"), job("afterok:a"), job("afterok:b"))
    assert list(jobs.change(key("a"), None, job())) == []
    assert jobs.progress(key("train"), job("afterok:b")).waits
    jobs.change(key("train"), job("afterok:b"), None)
    assert list(jobs.change(key("b"), None, job())) == []
    assert jobs.waiting == {}


def test_an_invalid_annotation_is_named_in_the_error() -> None:
    jobs = DependentJobs(lambda _: None)
    assert list(jobs.change(key("train"), None, job("soon"))) == []
    with pytest.raises(FieldError, match="is not a dependency"):
        jobs.progress(key("train"), job("soon"))
