"""The annotation with the user who submitted a job: users cannot choose it, and no controller counts as a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.admission_reviews import QUEUE, defaulted, job, owned_by, pod, rules
from zonewise_scheduler.controller.webhooks.submitter import MAX_NAME
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable

CONTROLLERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:cronjob-controller",
    "system:node:node-1",
    "system:apiserver",
)


def deployment(queue: str = "", annotations: Any = None) -> Any:
    return {**job(queue, annotations), "apiVersion": "apps/v1", "kind": "Deployment"}


def leader_worker_set(queue: str = "", annotations: Any = None) -> Any:
    spec: Any = {"leaderWorkerTemplate": {"workerTemplate": {"spec": {}}}}
    made = job(queue, annotations)
    return {**made, "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}


KINDS = (job, pod, deployment, leader_worker_set)
NAMES = st.one_of(st.just(""), st.sampled_from(["ann", "ben", "system:serviceaccount:team-a:ci"]))


def submitter(obj: Any) -> str | None:
    return obj["metadata"]["annotations"].get(SUBMITTED_BY_ANNOTATION)


def by(name: str) -> dict[str, str]:
    return {SUBMITTED_BY_ANNOTATION: name} if name else {}


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("user", ["ann", "https://id.example.com#ann:b", "system:admin", "system:serviceaccount:a:ci"])
def test_the_webhook_notes_who_creates_a_job(new: Callable[..., Any], user: str) -> None:
    """It does so whatever the user claims, beside the other annotations."""
    made = defaulted(new("q", {"note": "mine", **by("ben")}), rules(), user=user)
    assert (submitter(made), made["metadata"]["annotations"]["note"]) == (user, "mine")


def test_a_job_of_the_default_queue_has_a_user_too() -> None:
    assert submitter(defaulted(job(), rules(default_queue=True), user="ann")) == "ann"
    assert submitter(defaulted(job(), rules(without_name=True), user="ann")) == "ann"


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("user", [*CONTROLLERS, "", "x" * (MAX_NAME + 1)])
def test_the_user_of_a_controller_is_unknown(new: Callable[..., Any], user: str) -> None:
    """A template of a CronJob may claim a user."""
    assert submitter(defaulted(new("q", by("ben")), rules(), user=user)) is None


def test_a_name_of_the_maximum_length_is_noted() -> None:
    assert submitter(defaulted(job("q"), rules(), user="x" * MAX_NAME)) == "x" * MAX_NAME


def test_an_object_that_is_not_queued_has_no_user() -> None:
    assert submitter(defaulted(job("", by("ben")), rules(), user="ann")) is None
    child = owned_by(job("q"), "jobset.x-k8s.io/v1alpha2", "JobSet")
    assert submitter(defaulted(child, rules(), user="ann")) is None
    config = {**job("q"), "apiVersion": "v1", "kind": "ConfigMap"}
    assert defaulted(config, rules(), user="ann") == config


@given(stored=NAMES, claimed=NAMES, user=NAMES, new=st.sampled_from(KINDS))
def test_an_update_never_changes_the_user(stored: str, claimed: str, user: str, new: Callable[..., Any]) -> None:
    """Nor does it add one to a job from before an upgrade, since its user is not known."""
    made = defaulted(new("q", by(claimed)), rules(), new("q", by(stored)), user)
    assert submitter(made) == (stored or None)


def test_the_user_who_queues_a_job_by_an_update_is_noted() -> None:
    """What the job claimed as long as the webhooks did not see it does not count."""
    queued = defaulted(job("q", by("ben")), rules(), job("", by("ben")), "ann")
    assert submitter(queued) == "ann"
    removed = defaulted(job("", by("ann")), rules(), job("q", by("ann")), "ann")
    assert submitter(removed) is None
    assert QUEUE not in removed["metadata"]["labels"]
