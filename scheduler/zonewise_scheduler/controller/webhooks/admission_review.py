"""AdmissionReview of admission.k8s.io/v1: requests as values, and responses (k8s.io/api/admission/v1/types.go)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, string_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.controller.types import Json

_API_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"
_MAX_MESSAGE = 4000
"""Maximum number of characters in a rejection. The API server passes it on in a warning header or in one Status."""


class AdmissionRequest(NamedTuple):
    """A request for the admission of one object."""

    uid: str
    group: str
    kind: str
    namespace: str
    operation: str
    """The operation: CREATE or UPDATE."""
    obj: Json
    old: Json
    """The object before an update; empty on creation."""
    username: str = ""
    """The name of the authenticated user; "" if unknown."""

    @property
    def group_kind(self) -> tuple[str, str]:
        """Return the API group and the kind, which are the key of an adapter."""
        return self.group, self.kind


def read_review(review: Mapping[str, Any]) -> AdmissionRequest:
    """Return the request of an AdmissionReview. Raises FieldError if the document is not an AdmissionReview."""
    for field, expected in (("apiVersion", _API_VERSION), ("kind", _KIND)):
        if review.get(field) != expected:
            raise FieldError(field, f"not {expected}: {review.get(field)!r:.80}")
    request = object_in(review, "request", "")
    kind = object_in(request, "kind", "request.")
    uid = string_in(request, "uid", "request.")
    if not uid:
        raise FieldError("request.uid", "is missing")
    return AdmissionRequest(
        uid,
        string_in(kind, "group", "request.kind."),
        string_in(kind, "kind", "request.kind."),
        string_in(request, "namespace", "request."),
        string_in(request, "operation", "request."),
        object_in(request, "object", "request."),
        object_in(request, "oldObject", "request."),
        string_in(object_in(request, "userInfo", "request."), "username", "request.userInfo."),
    )


def allow(uid: str, patch: Sequence[Json] = (), warnings: Sequence[str] = ()) -> Json:
    """Return the response that allows an object, with a JSON patch (RFC 6902) to apply, and warnings for its user."""
    response: Json = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    if patch:
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": response}


def reject(uid: str, problems: Sequence[str]) -> Json:
    """Return the response that rejects an object because of its problems."""
    message = "; ".join(problems)
    if len(message) > _MAX_MESSAGE:
        message = f"{message[:_MAX_MESSAGE]}... ({len(problems)} problems)"
    status = {"code": 422, "reason": "Invalid", "message": message}
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": {"uid": uid, "allowed": False, "status": status}}


def patch_between(old: Json, new: Json, path: str = "") -> list[Json]:
    """Return the JSON patch that changes `old` into `new`. It replaces lists as a whole."""
    operations: list[Json] = [{"op": "remove", "path": _pointer(path, name)} for name in old if name not in new]
    for name, value in new.items():
        field, before = _pointer(path, name), old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            operations += patch_between(before, value, field)  # pyright: ignore[reportUnknownArgumentType]
        elif before != value:
            operations.append({"op": "add", "path": field, "value": value})
    return operations


def _pointer(path: str, name: str) -> str:
    """Return the JSON pointer (RFC 6901) to a field of the object at a path."""
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
