"""Access to /metrics and /debug, for tokens of users that the API server allows to get the path.

The other components of a cluster do the same. A TokenReview returns the user of a token. A SubjectAccessReview states
whether that user may `get` the path as a non-resource URL. A ClusterRole grants Prometheus that permission.

A path of the read API is reviewed with REVIEWED_PREFIX before it. Every user of a cluster may `get` /api/* for
discovery: ClusterRole system:discovery (kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).

The API server's proxy to a Service removes the header Authorization (apiserver pkg/endpoints/filters/authentication.go)
and passes on the others. A token may therefore be in TOKEN_HEADER instead.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from zonewise_common.service.http_messages import RETRY_AFTER
from zonewise_common.service.review_budget import ReviewBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.resources import Resource

K = TypeVar("K")
V = TypeVar("V")

TOKEN_HEADER = "x-zonewise-token"  # noqa: S105 -- the name of a header
"""The header for a bearer token of clients behind the API server's proxy; its value is only the token."""
REVIEWED_PREFIX = "/zonewise"
"""The prefix before /api/ in the non-resource URLs of reviews."""
CACHE_SECONDS = 60.0
"""Seconds for which a decision is cached. Prometheus sends one token about every 15 s. A revoked token works for a
minute longer. (controller-runtime caches positive decisions for a minute as well.)"""
_MAX_CACHED = 1024
"""Maximum number of entries of each cache, so that guessed tokens cost no memory. A new entry replaces the oldest
one."""


class Decision(NamedTuple):
    """An HTTP status, with the reason for a rejection."""

    status: int
    reason: str = ""


ALLOWED = Decision(200)
_TOO_MANY = Decision(
    429, f"too many requests with new tokens or paths, from this client or in all; try again in {RETRY_AFTER} s"
)


class _Cached(NamedTuple):
    until: float
    decision: Decision


class ReviewClient(Protocol):
    """The methods of Client that an authorizer needs."""

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Create a review, and return it with its status."""
        ...


class Authorizer:
    """Decides through reviews by the API server, and caches decisions for a minute. Thread-safe.

    Reviews have a budget; beyond it, clients get 429. A token with a path that its last review allowed does not use the
    budget, and has a separate cache. Its bearer gets the path, whatever requests others send. For other paths, such a
    token has a budget of its own, and an unknown token uses that of its address.
    """

    def __init__(self, client: ReviewClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an authorizer from the client of the API server and a monotonic clock in seconds."""
        self._client = client
        self._clock = clock
        self._budget = ReviewBudget(clock)
        self._lock = threading.Lock()
        self._allowed: dict[bytes, _Cached] = {}  # expired ones too, whose bearers still count as known
        self._rejected: dict[bytes, _Cached] = {}
        self._known: dict[str, None] = {}  # digests of tokens that some review allowed a path; the oldest first
        self._rejections: Counter[int] = Counter()

    @property
    def rejections(self) -> dict[int, int]:
        """Return the number of rejected requests by their HTTP status."""
        with self._lock:
            return dict(self._rejections)

    def authorize_headers(self, headers: Mapping[str, str], path: str, address: str) -> Decision:
        """Decide as `authorize` does, from the headers of a request by lower-case name."""
        authorization, token = headers.get("authorization", ""), headers.get(TOKEN_HEADER, "")
        return self.authorize(authorization or (f"Bearer {token}" if token else ""), path, address)

    def authorize(self, authorization: str, path: str, address: str) -> Decision:
        """Decide whether the bearer of an Authorization header may get a path; `address` is the client's IP address."""
        decision = self._decide(authorization, path, address)
        if decision.status != 200:
            with self._lock:
                self._rejections[decision.status] += 1
        return decision

    def _decide(self, authorization: str, path: str, address: str) -> Decision:
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return Decision(401, "a bearer token is required")
        bearer = hashlib.sha256(token.strip().encode()).hexdigest()  # the caches hold no tokens
        key = hashlib.sha256(f"{path}\0{bearer}".encode()).digest()
        with self._lock:
            allowed = self._allowed.get(key)
            cached = allowed or self._rejected.get(key)
            client = bearer if bearer in self._known else address
        if cached is not None and self._clock() < cached.until:
            return cached.decision
        if allowed is None and not self._budget.try_acquire(client):
            return _TOO_MANY
        try:
            decision = self._review(token.strip(), path)
        except KubeError as error:
            return Decision(503, f"the API server cannot review the token: {error}")
        with self._lock:
            self._cache(key, decision)
            if decision.status == 200:
                self._known.pop(bearer, None)
                _put(self._known, bearer, None)
        return decision

    def _cache(self, key: bytes, decision: Decision) -> None:
        """Cache a decision; the caller holds the lock."""
        for cache in (self._allowed, self._rejected):
            cache.pop(key, None)
        cache = self._allowed if decision.status == 200 else self._rejected
        _put(cache, key, _Cached(self._clock() + CACHE_SECONDS, decision))

    def _review(self, token: str, path: str) -> Decision:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = self._client.create(TOKEN_REVIEWS, review).get("status", {})
        if not status.get("authenticated"):
            return Decision(401, "the token is not valid")
        user = status.get("user", {})
        url = f"{REVIEWED_PREFIX}{path}" if path.startswith("/api/") else path
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups", []),
            "extra": user.get("extra", {}),
            "nonResourceAttributes": {"path": url, "verb": "get"},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        access = self._client.create(SUBJECT_ACCESS_REVIEWS, review).get("status", {})
        if access.get("allowed"):
            return ALLOWED
        return Decision(403, f"{user.get('username')} may not get {url}")


def _put(cache: dict[K, V], key: K, value: V) -> None:
    """Add a new entry to a cache, in place of the oldest one if it is full."""
    if len(cache) >= _MAX_CACHED:
        del cache[next(iter(cache))]
    cache[key] = value
