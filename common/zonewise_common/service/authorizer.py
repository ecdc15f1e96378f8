"""Access to /metrics and /debug: for bearers of a token whose user the API server allows to get that path.

The other components of a cluster do the same: a TokenReview returns the user of a token, and a SubjectAccessReview
whether that user may `get` the path as a non-resource URL. Prometheus has that right by a ClusterRole.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource

CACHE_SECONDS = 60.0
"""Seconds for which a decision is cached. Prometheus comes with one token every 15 s or so. A withdrawn token works for
a minute longer. (controller-runtime caches positive decisions for a minute as well.)"""
_MAX_CACHED = 256
"""Decisions in the cache, so that guessed tokens cost no memory."""


class Decision(NamedTuple):
    """An HTTP status, with the reason of a rejection."""

    status: int
    reason: str = ""


ALLOWED = Decision(200)


class ReviewClient(Protocol):
    """The methods of a Client that an authorizer needs."""

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Create a review, and return it with its status."""
        ...


class Authorizer:
    """Decides by reviews of the API server, and caches decisions for a minute. Safe for several threads."""

    def __init__(self, client: ReviewClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._cached: dict[bytes, tuple[float, Decision]] = {}

    def authorize(self, authorization: str, path: str) -> Decision:
        """Decide whether the bearer of an Authorization header may get a path."""
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return Decision(401, "a bearer token is needed")
        key = hashlib.sha256(f"{path}\0{token}".encode()).digest()  # the cache has no tokens
        cached = self._cached.get(key)
        if cached is not None and self._clock() < cached[0]:
            return cached[1]
        try:
            decision = self._review(token.strip(), path)
        except KubeError as error:
            return Decision(503, f"the API server cannot review the token: {error}")
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key] = (self._clock() + CACHE_SECONDS, decision)
        return decision

    def _review(self, token: str, path: str) -> Decision:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = self._client.create(TOKEN_REVIEWS, review).get("status", {})
        if not status.get("authenticated"):
            return Decision(401, "the token is not valid")
        user = status.get("user", {})
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups", []),
            "extra": user.get("extra", {}),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        access = self._client.create(SUBJECT_ACCESS_REVIEWS, review).get("status", {})
        if access.get("allowed"):
            return ALLOWED
        return Decision(403, f"{user.get('username')} may not get {path}")
