"""Tokens of the viewer's ServiceAccount."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from zonewise_common.kube.errors import Forbidden, KubeError, NotFound, TransportError
from zonewise_scheduler.client.viewer_token import LIFETIME, RENEWED_AFTER, RETRY, ViewerToken

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiServerReply:
    """A transport that returns the same reply to all requests."""

    def __init__(self, reply: bytes | KubeError) -> None:
        self.reply = reply
        self.requests: list[tuple[str, str, Any]] = []

    def request(self, method: str, path: str, query: Mapping[str, object], body: bytes) -> bytes:
        assert not query
        self.requests.append((method, path, json.loads(body)))
        if isinstance(self.reply, KubeError):
            raise self.reply
        return self.reply


def token(reply: ApiServerReply, own: str = "") -> ViewerToken:
    return ViewerToken(reply, "zonewise", own)  # type: ignore[arg-type]


def test_a_token_is_requested_once_for_ten_minutes() -> None:
    reply = ApiServerReply(b'{"status": {"token": "short"}}')
    subject = token(reply)
    assert (subject.get(), subject.get(), subject.problem) == ("short", "short", "")
    [(method, path, body)] = reply.requests
    assert (method, path) == ("POST", "/api/v1/namespaces/zonewise/serviceaccounts/zonewise-viewer/token")
    assert body["spec"] == {"expirationSeconds": 600}
    assert "short" not in repr(subject)


def test_a_token_is_renewed_before_it_expires() -> None:
    """Watching commands and the page outlive a token. A token that cannot be renewed is used until it expires."""
    reply = ApiServerReply(b'{"status": {"token": "first"}}')
    now = 0.0
    subject = ViewerToken(reply, "zonewise", clock=lambda: now)  # type: ignore[arg-type]
    assert subject.get() == "first"
    now = RENEWED_AFTER - 1.0
    reply.reply = TransportError("refused")
    assert (subject.get(), len(reply.requests)) == ("first", 1)
    now = RENEWED_AFTER
    assert (subject.get(), len(reply.requests)) == ("first", 2)
    assert "refused" in subject.problem
    assert (subject.get(), len(reply.requests)) == ("first", 2)
    now += RETRY
    reply.reply = b'{"status": {"token": "second"}}'
    assert (subject.get(), subject.problem) == ("second", "")
    assert now < LIFETIME


def test_a_token_of_the_user_takes_precedence() -> None:
    reply = ApiServerReply(TransportError("refused"))
    subject = token(reply, "own")
    assert subject.get() == "own"
    assert not subject.reject("own")
    assert subject.get() == "own"
    assert reply.requests == []


def test_a_rejected_token_is_replaced_once_for_all_threads() -> None:
    reply = ApiServerReply(b'{"status": {"token": "first"}}')
    subject = token(reply)
    assert subject.get() == "first"
    reply.reply = b'{"status": {"token": "second"}}'
    assert subject.reject("first")
    assert subject.get() == "second"
    assert subject.reject("first")
    assert (subject.get(), len(reply.requests)) == ("second", 2)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (NotFound(404, "NotFound", "not found"), "there is no ServiceAccount zonewise-viewer in namespace zonewise"),
        (Forbidden(403, "Forbidden", "no"), "the Role zonewise-user gives this right"),
        (
            TransportError("refused"),
            "does not issue a token of ServiceAccount zonewise/zonewise-viewer: refused",
        ),
        (b"{}", "the API server does not issue a token"),
        (b"<html>", "the API server does not issue a token"),
        (b'{"status": {"token": "two\\nlines"}}', "the token contains characters that are not allowed in a header"),
    ],
)
def test_no_token(reply: bytes | KubeError, problem: str) -> None:
    subject = token(ApiServerReply(reply))
    assert subject.get() == ""
    assert problem in subject.problem
