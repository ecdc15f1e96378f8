"""Token reviews: caches and counts. test_http_server covers rejections over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.clock import Clock
from zonewise_common.kube.resources import TOKEN_REVIEWS
from zonewise_common.service import authorizer
from zonewise_common.service.authorizer import CACHE_SECONDS, Authorizer

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
