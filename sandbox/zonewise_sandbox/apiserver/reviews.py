"""The user of a request, and reviews: TokenReview and SubjectAccessReview are evaluated by functions of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.json_values import Object, object_in
from zonewise_sandbox.apiserver.kinds import REVIEWS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


User = Object
"""UserInfo: username, uid, groups, extra."""

ADMIN: User = {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]}


def user_of(headers: Mapping[str, str]) -> User:
    """Return the user of a request with these headers (lower-case): the impersonated one, or else the administrator.

    Impersonated groups are ignored (apiserver pkg/endpoints/filters/impersonation.go), since everything is allowed.
    """
    name = headers.get("impersonate-user")
    return {"username": name, "groups": ["system:authenticated"]} if name else ADMIN


class Reviews(NamedTuple):
    """The functions that evaluate reviews."""

    token: Callable[[str], User | None]
    """Returns the user of a token, or None if it is invalid."""
    access: Callable[[Object], bool]
    """Returns whether a SubjectAccessReviewSpec is allowed."""

    def evaluate(self, kind: Kind, review: Object, user: User) -> Object:
        """Return a review by a user with its status."""
        spec = object_in(review, "spec")
        if kind.kind == "TokenReview":
            status = self._review_token(str(spec.get("token") or ""))
        elif kind.kind == "SelfSubjectReview":
            status = {"userInfo": user}
        else:
            status = {"allowed": self.access(spec)}
        head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": object_in(review, "metadata")}
        return {**head, **({"spec": spec} if "spec" in review else {}), "status": status}

    def _review_token(self, token: str) -> Object:
        user = self.token(token)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user, "audiences": ["https://kubernetes.default.svc"]}


def is_review_kind(kind: Kind) -> bool:
    """Return whether a kind is a review."""
    return kind in REVIEWS
