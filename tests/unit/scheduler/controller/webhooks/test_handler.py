"""The webhooks over HTTP: hostile bodies get a short error, and every response is an AdmissionReview."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from support.admission_reviews import job, pod, problems_of, response_of, review, rules
from support.json_strategies import VALUES
from zonewise_common.service.handlers import Request
from zonewise_scheduler.controller.webhooks.handler import DEFAULT_PATH, VALIDATE_PATH, WebhookHandler

PATHS = (DEFAULT_PATH, VALIDATE_PATH)
each_path = pytest.mark.parametrize("path", PATHS)


def handle(path: str, body: bytes) -> Any:
    return WebhookHandler(rules()).handle(Request("POST", path, body=body))


def test_the_webhook_paths_accept_only_post() -> None:
    handler = WebhookHandler(rules())
    assert {path: tuple(handler.methods(path)) for path in (*PATHS, "/")} == {
        DEFAULT_PATH: ("POST",),
        VALIDATE_PATH: ("POST",),
        "/": (),
    }


@each_path
@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"kind": "AdmissionReview"}'])
def test_a_body_that_is_not_a_review_is_a_bad_request(path: str, body: bytes) -> None:
    response = handle(path, body)
    assert (response.status, response.body[:19]) == (400, b"no AdmissionReview:")
    assert len(response.body) < 1000


@given(VALUES)
def test_no_object_causes_a_failure(value: Any) -> None:
    """Whatever an object contains, the response allows or rejects it."""
    for made in (job("q"), pod()):
        for field in ("metadata", "spec"):
            for path in PATHS:
                response = response_of(path, review({**made, field: value}), rules(default_queue=True))
                assert response["allowed"] or response["status"]["message"]


def test_a_deletion_is_allowed() -> None:
    document = review(job("Q!"), operation="DELETE")
    assert response_of(VALIDATE_PATH, document, rules())["allowed"]


def test_each_object_is_allowed_unchanged_while_another_controller_manages_the_queues() -> None:
    """Even an invalid job is allowed; the other controller's webhooks decide about it."""
    handler = WebhookHandler(rules(default_queue=True), stands_by=lambda: True)
    for path in PATHS:
        for made in (job("q"), job(), pod("q"), job("q", {"zonewise.dev/max-run-seconds": "never"})):
            answer = handler.handle(Request("POST", path, body=json.dumps(review(made)).encode()))
            assert json.loads(answer.body)["response"] == {"uid": "u-1", "allowed": True}


def queue(**spec: Any) -> Any:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "a"}, "spec": spec}


def test_queues_are_rejected_with_their_problems() -> None:
    invalid = queue(resourceGroups=[{"coveredResources": ["cpu"], "flavors": [{"name": "a", "resources": [
        {"name": "cpu", "nominalQuota": "-1"}]}]}])  # fmt: skip
    assert "nominalQuota" in problems_of(invalid)
    assert problems_of({**invalid, "metadata": {"name": "a", "finalizers": []}}, invalid) == ""


def test_long_messages_are_truncated() -> None:
    made = queue(resourceGroups=[{"coveredResources": [f"r{i}" for i in range(500)], "flavors": [{"name": "a"}]}])
    message = problems_of(made)
    assert len(message) < 4200
    assert message.endswith("problems)")
    assert json.dumps(message)
