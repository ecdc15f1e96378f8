"""Owners that are queued instead of what they own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.admission_reviews import QUEUE
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.managed_owner import has_managed_owner, has_queued_owner

Json = dict[str, Any]

JOB_SET = ("jobset.x-k8s.io", "JobSet")
APP_WRAPPER = ("workload.codeflare.dev", "AppWrapper")
KINDS = frozenset({JOB_SET, APP_WRAPPER, ("batch", "Job")})


def not_observed(_uid: str) -> None:
    """Return no owner, since none is observed yet."""


def chain(*queues: str, kinds: tuple[tuple[str, str], ...] = ()) -> dict[str, Json]:
    """Return objects by UID, each owned by the next one; `kinds`: those of the owners, JobSets if absent."""
    objects: dict[str, Json] = {}
    for i, queue in enumerate(queues):
        group, kind = (*kinds, *(JOB_SET for _ in queues))[i]
        owner = {"apiVersion": f"{group}/v1", "kind": kind, "name": "o", "uid": f"u-{i + 1}", "controller": True}
        references = [owner] if i + 1 < len(queues) else []
        labels = {QUEUE: queue} if queue else {}
        objects[f"u-{i}"] = {"metadata": {"name": f"o-{i}", "labels": labels, "ownerReferences": references}}
    return objects


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (("q",), False),
        (("q", ""), False),
        (("q", "q"), True),
        (("q", "", "q"), True),
        (("q", "", ""), False),
        (("", "q"), True),
    ],
)
def test_the_highest_owner_with_a_queue_is_queued(queues: tuple[str, ...], expected: bool) -> None:
    objects = chain(*queues)
    assert has_queued_owner(objects["u-0"], KINDS, objects.get) is expected


def test_owners_above_an_unknown_kind_do_not_count() -> None:
    objects = chain("q", "", "q", kinds=(JOB_SET, ("argoproj.io", "Workflow")))
    assert not has_queued_owner(objects["u-0"], KINDS, objects.get)


def test_an_owner_that_is_not_observed_counts_as_queued() -> None:
    objects = chain("q", "")
    assert has_queued_owner(objects["u-0"], KINDS, not_observed)


def test_every_owner_counts_if_jobs_without_a_queue_are_held() -> None:
    objects = chain("q", "")
    assert has_queued_owner(objects["u-0"], KINDS, objects.get, manages_without_queue_name=True)


def test_owners_in_a_ring_end() -> None:
    objects = chain("q", "")
    objects["u-1"]["metadata"]["ownerReferences"] = objects["u-0"]["metadata"]["ownerReferences"]
    assert not has_queued_owner(objects["u-0"], KINDS, objects.get)


def test_only_the_controller_counts() -> None:
    [child, _] = chain("q", "q").values()
    child["metadata"]["ownerReferences"][0]["controller"] = False
    assert not has_managed_owner(child, KINDS)
    child["metadata"]["ownerReferences"][0]["controller"] = True
    assert has_managed_owner(child, KINDS)
    assert not has_managed_owner(child, frozenset({APP_WRAPPER}))


def test_an_invalid_owner_is_an_error() -> None:
    [child, _] = chain("q", "q").values()
    child["metadata"]["ownerReferences"][0]["kind"] = 1
    with pytest.raises(FieldError, match=r"metadata\.ownerReferences"):
        has_queued_owner(child, KINDS, not_observed)


@given(st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=6))
def test_exactly_one_object_of_a_chain_is_queued(queues: list[str]) -> None:
    """Each object with a queue and without a queued owner gets a Workload."""
    objects = chain(*queues)
    queued = [
        uid
        for uid, obj in objects.items()
        if obj["metadata"]["labels"] and not has_queued_owner(obj, KINDS, objects.get)
    ]
    assert len(queued) == any(queues)
