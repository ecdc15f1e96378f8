"""Who may read /metrics and /debug: bearers of a token that the API server says may get that path.

As the other components of a cluster do it: a TokenReview says whose token it is, a SubjectAccessReview whether that
user may `get` the path as a non-resource URL. Prometheus is given that right by a ClusterRole.
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
"""Seconds for which an answer is taken for the next one too: Prometheus comes with one token every 15 s or so, and a
token that is withdrawn works for a minute longer. (controller-runtime keeps allowed answers for a minute as well.)"""
_MOST = 256
"""Answers kept at most, so that guessing tokens costs no memory."""


class Decision(NamedTuple):
    """An answer to a caller: an HTTP status, and what is wrong."""

    status: int
    reason: str = ""


ALLOWED = Decision(200)


class ReviewClient(Protocol):
    """What of a zonewise_common.kube Client is needed."""

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Create an object, and return it with the answer as its status."""
        ...


class Authorizer:
    """Asks the API server, and keeps answers for a minute. Safe for several threads."""

    def __init__(self, client: ReviewClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[bytes, tuple[float, Decision]] = {}

    def authorize(self, authorization: str, path: str) -> Decision:
        """Say whether the bearer of an Authorization header may get a path."""
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return Decision(401, "a bearer token is needed")
        key = hashlib.sha256(f"{path}\0{token}".encode()).digest()  # tokens themselves are not kept
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        try:
            verdict = self._ask(token.strip(), path)
        except KubeError as error:
            return Decision(503, f"the API server cannot be asked who you are: {error}")
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[key] = (self._clock() + CACHE_SECONDS, verdict)
        return verdict

    def _ask(self, token: str, path: str) -> Decision:
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
        answer = self._client.create(SUBJECT_ACCESS_REVIEWS, review).get("status", {})
        if answer.get("allowed"):
            return ALLOWED
        return Decision(403, f"{user.get('username')} may not get {path}")
