"""Contradictory quotas are reported as problems of their ClusterQueue or Cohort."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.quota.api.queue_reader import read_cluster_queue, read_cohort


def group(resource: str = "cpu", flavor: str = "a", **limits: Any) -> Any:
    resources = [{"name": resource, "nominalQuota": 4, **limits}]
    return {"coveredResources": [resource], "flavors": [{"name": flavor, "resources": resources}]}


def problems(*groups: Any, **spec: Any) -> str:
    obj = {"metadata": {"name": "q"}, "spec": {"resourceGroups": list(groups), **spec}}
    return "; ".join(read_cluster_queue(obj)[1])


def test_valid_quotas() -> None:
    assert problems(group(), group("memory", "b")) == ""
    assert problems(group(borrowingLimit=9, lendingLimit=4), cohortName="all") == ""
    assert problems(group(borrowingLimit=9), cohort="all") == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("resource cpu is in 2 groups", problems(group(), group(flavor="b"))),
        ("flavor a is listed 2 times", problems(group(), group("memory"))),
        ("borrowingLimit of cpu in flavor a needs spec.cohortName", problems(group(borrowingLimit=1))),
        ("lendingLimit of cpu in flavor a needs spec.cohortName", problems(group(lendingLimit=1))),
        ("lendingLimit of cpu in flavor a is above", problems(group(lendingLimit=5), cohortName="all")),
    ],
)
def test_contradictions(words: str, message: str) -> None:
    assert words in message


def test_cohorts() -> None:
    obj = {"metadata": {"name": "c"}, "spec": {"resourceGroups": [group(borrowingLimit=1)]}}
    assert "needs spec.parentName" in read_cohort(obj)[1][0]


def test_a_cohort_may_lend_the_quota_of_its_subtree() -> None:
    obj = {"metadata": {"name": "c"}, "spec": {"parentName": "all", "resourceGroups": [group(lendingLimit=5)]}}
    assert read_cohort(obj)[1] == ()


def test_admission_checks_of_flavors_without_quota() -> None:
    def strategy(flavor: str) -> Any:
        return {"admissionChecks": [{"name": "licence"}, {"name": "spot", "onFlavors": [flavor]}]}

    message = "spec.admissionChecksStrategy: onFlavors of check spot: there is no quota of flavor b"
    assert problems(group(), admissionChecksStrategy=strategy("b")) == message
    assert problems(group(), admissionChecksStrategy=strategy("a")) == ""
