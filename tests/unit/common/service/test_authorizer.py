"""Token reviews: caches and counts. test_http_server covers rejections over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.clock import Clock
from zonewise_common.kube.resources import TOKEN_REVIEWS
from zonewise_common.service import authorizer
from zonewise_common.service.authorizer import CACHE_SECONDS, Authorizer
from zonewise_common.service.review_budget import CLIENT_BURST

if TYPE_CHECKING:
    import pytest

    from zonewise_common.kube.resources import Resource


class ValidTokens:
    """Reviews that authenticate some tokens and allow them every path."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = set(tokens)
        self.reviewed: list[str] = []

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if resource != TOKEN_REVIEWS:
            return {"status": {"allowed": True}}
        self.reviewed.append(obj["spec"]["token"])
        return {"status": {"authenticated": obj["spec"]["token"] in self.tokens, "user": {"username": "u"}}}


def test_a_withdrawn_token_is_unknown_again() -> None:
    """After a minute, its first review costs no budget; the rejection is cached and counted."""
    clock, reviews = Clock(), ValidTokens("good")
    subject = Authorizer(reviews, clock=clock)
    assert subject.authorize("Bearer good", "/metrics", "::1").status == 200
    reviews.tokens.clear()
    assert subject.authorize("Bearer good", "/metrics", "::1").status == 200
    clock.advance(CACHE_SECONDS)
    for _ in range(3):
        assert subject.authorize("Bearer good", "/metrics", "::1").status == 401
    assert reviews.reviewed == ["good", "good"]
    assert subject.rejections == {401: 3}


def test_the_oldest_rejection_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full cache of rejections drops the oldest one, and never a decision about an allowed token."""
    monkeypatch.setattr(authorizer, "_MAX_CACHED", 3)
    reviews = ValidTokens("good")
    subject = Authorizer(reviews, clock=Clock())
    for token in ("good", "1", "2", "3", "4", "2", "good", "1"):
        subject.authorize(f"Bearer {token}", "/metrics", "::1")
    assert reviews.reviewed == ["good", "1", "2", "3", "4", "1"]


def test_a_known_token_has_its_own_budget_for_further_paths() -> None:
    """Neither strangers at its address nor other users limit it, and it limits only itself."""
    clock = Clock()
    subject = Authorizer(ValidTokens("ann", "bob"), clock=clock)
    assert subject.authorize("Bearer ann", "/api/v1/queues", "::1").status == 200
    assert subject.authorize("Bearer bob", "/api/v1/queues", "::1").status == 200
    for number in range(2 * CLIENT_BURST):
        subject.authorize(f"Bearer {number}", "/api/v1/queues", "::1")
    assert subject.authorize("Bearer stranger", "/api/v1/queues", "::1").status == 429
    paths = [f"/api/v1/workloads/ns/{number}" for number in range(CLIENT_BURST + 1)]
    assert [subject.authorize("Bearer ann", path, "::1").status for path in paths] == [200] * CLIENT_BURST + [429]
    assert subject.authorize("Bearer bob", paths[0], "::1").status == 200
    assert subject.authorize("Bearer ann", "/api/v1/queues", "::1").status == 200


def test_users_behind_one_address_are_not_limited() -> None:
    """All come through the API server's proxy: each runs three commands within a minute, with one token."""
    clock = Clock()
    users = [f"user-{number}" for number in range(150)]
    subject = Authorizer(ValidTokens(*users), clock=clock)
    for command in ("/api/v1/workloads", "/api/v1/workloads/ns/{}", "/api/v1/workloads/ns/other-{}"):
        for user in users:
            assert subject.authorize(f"Bearer {user}", command.format(user), "10.0.0.1").status == 200
            clock.advance(0.4)


def test_many_strangers_make_no_token_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "_MAX_CACHED", 3)
    subject = Authorizer(ValidTokens("ann", "bob"), clock=Clock())
    for user in ("bob", "ann"):
        assert subject.authorize(f"Bearer {user}", "/a", "::1").status == 200
    for number in range(2 * CLIENT_BURST):
        subject.authorize(f"Bearer {number}", "/a", "::1")
    for path in ("/b", "/c", "/d"):
        assert subject.authorize("Bearer ann", path, "::1").status == 200
    assert subject.authorize("Bearer bob", "/b", "::1").status == 200
