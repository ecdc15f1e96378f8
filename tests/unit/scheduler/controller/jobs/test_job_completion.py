"""Whether the pods of a Job show that no work is left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.job_completion import is_job_done
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, CONTROLLER_UID

Json = dict[str, Any]


def job(status: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "j", "uid": "u"}, "spec": spec, "status": status or {}}


def indexed(status: Json | None = None, pods: int = 3, completions: int = 3) -> Json:
    return job(status, parallelism=pods, completions=completions, completionMode="Indexed")


def pod(index: int, uid: str = "u") -> dict[str, str]:
    return {COMPLETION_INDEX: str(index), CONTROLLER_UID: uid}


def test_every_index_has_succeeded() -> None:
    pods = [pod(0), pod(1), pod(2)]
    assert is_job_done(indexed(), pods)
    assert not is_job_done(indexed(), pods[:2])
    assert not is_job_done(indexed(), [*pods[:2], pod(1)]), "one index twice"


def test_indexes_in_the_status_count_too() -> None:
    """The pods of these indexes may be deleted. An index that failed permanently no longer needs a pod."""
    assert is_job_done(indexed({"completedIndexes": "0-1"}), [pod(2)])
    assert is_job_done(indexed({"completedIndexes": "0", "failedIndexes": "1"}), [pod(2), pod(0)])
    assert not is_job_done(indexed({"completedIndexes": "0"}), [pod(2)])


def test_pods_of_an_earlier_job_of_the_same_name_do_not_count() -> None:
    assert not is_job_done(indexed(), [pod(0), pod(1), pod(2, uid="earlier")])


def test_a_job_with_more_completions_than_parallel_pods() -> None:
    many = job(parallelism=2, completions=4)
    assert not is_job_done(many, [pod(0), pod(1)])
    assert is_job_done(many, [pod(i) for i in range(4)])
    assert is_job_done(job({"succeeded": 4}, parallelism=2, completions=4), [pod(3)])
    assert not is_job_done(job({"succeeded": 3}, parallelism=2, completions=4), [pod(3)]), "it may be one of the three"


def test_a_job_without_pods_is_judged_only_by_its_status() -> None:
    assert not is_job_done(indexed({"completedIndexes": "0-2"}), [])
    assert not is_job_done(job(parallelism=0), [])


def test_an_invalid_job_is_an_error() -> None:
    with pytest.raises(FieldError, match=r"spec\.completions"):
        is_job_done(job(parallelism=1, completions="many"), [pod(0)])


@given(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)), st.integers(1, 6))
def test_done_means_that_no_index_is_left(counted: set[int], succeeded: set[int], completions: int) -> None:
    """The status and the pods count together, in whatever order they are observed."""
    status = {"completedIndexes": ",".join(map(str, sorted(counted)))}
    pods = [pod(index) for index in succeeded]
    left = set(range(completions)) - counted - succeeded
    assert is_job_done(indexed(status, completions, completions), pods) == (not left and bool(succeeded))
