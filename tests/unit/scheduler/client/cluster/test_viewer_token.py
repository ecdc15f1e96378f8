"""Tokens of the viewer's ServiceAccount."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from zonewise_common.kube.errors import Forbidden, KubeError, NotFound, TransportError
from zonewise_scheduler.client.cluster.token_file import TokenFile
from zonewise_scheduler.client.cluster.viewer_token import LIFETIME, RENEWED_AFTER, RETRY, ViewerToken

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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


def test_commands_share_a_token_through_its_file(tmp_path: Path) -> None:
    """The second command uses what is left of its eight minutes; a rejected token is requested again."""
    now = 0.0
    file = TokenFile(tmp_path / "token.json", lambda: now)

    def command(reply: ApiServerReply) -> ViewerToken:
        return ViewerToken(reply, "zonewise", file=file, clock=lambda: now)  # type: ignore[arg-type]

    first, second = (
        ApiServerReply(b'{"status": {"token": "first"}}'),
        ApiServerReply(b'{"status": {"token": "second"}}'),
    )
    assert command(first).get() == "first"
    now = 100.0
    later = command(second)
    assert (later.get(), second.requests) == ("first", [])
    now = RENEWED_AFTER - 1
    assert (later.get(), second.requests) == ("first", [])
    now = RENEWED_AFTER
    assert (later.get(), len(second.requests)) == ("second", 1)
    assert command(first).get() == "second"
    assert later.reject("second")
    assert (later.get(), len(second.requests)) == ("second", 2)
    assert "second" in (tmp_path / "token.json").read_text()


def test_a_token_that_another_command_renewed_is_not_requested(tmp_path: Path) -> None:
    """Ten commands that run for hours request one token every eight minutes together."""
    now = 0.0
    file = TokenFile(tmp_path / "token.json", lambda: now)
    server = ApiServerReply(b"")
    commands = [ViewerToken(server, "zonewise", file=file, clock=lambda: now) for _ in range(10)]  # type: ignore[arg-type]
    for number in range(50):
        server.reply = b'{"status": {"token": "t%d"}}' % number
        assert len({command.get() for command in commands}) == 1
        now += RENEWED_AFTER / 8
    assert len(server.requests) == 50 // 8 + 1


def test_a_token_from_the_file_ends_an_earlier_problem(tmp_path: Path) -> None:
    now = 0.0
    server, file = ApiServerReply(TransportError("refused")), TokenFile(tmp_path / "token.json", lambda: now)
    subject = ViewerToken(server, "zonewise", file=file, clock=lambda: now)  # type: ignore[arg-type]
    assert (subject.get(), "refused" in subject.problem) == ("", True)
    file.write("other", RENEWED_AFTER)
    now = RETRY
    assert (subject.get(), subject.problem) == ("other", "")


def test_neither_a_users_own_token_nor_an_error_is_written(tmp_path: Path) -> None:
    for reply, own in ((ApiServerReply(TransportError("refused")), ""), (ApiServerReply(b""), "own")):
        ViewerToken(reply, "zonewise", own, TokenFile(tmp_path / "token.json")).get()  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (NotFound(404, "NotFound", "not found"), "there is no ServiceAccount zonewise-viewer in namespace zonewise"),
        (Forbidden(403, "Forbidden", "no"), "the Role zonewise-user grants this permission"),
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
