"""Errors as Status bodies of a Kubernetes API server, with the same reasons, details and messages.

The constructors follow k8s.io/apimachinery/pkg/api/errors/errors.go, whose `reason` clients compare. The messages are
those of kube-apiserver 1.36, which the contract tests compare.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind


class StatusError(Exception):
    """A request that fails."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        """Create an error from the HTTP status, the machine-readable reason ("" for none), a message, and details."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def body(self) -> Object:
        """Return the Status object."""
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class Cause(NamedTuple):
    """One invalid field (k8s.io/apimachinery/pkg/util/validation/field/errors.go)."""

    reason: str
    """FieldValueInvalid and so on."""
    field: str
    """The field's path: "spec.containers[0].name"."""
    message: str


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a field that is missing."""
    return Cause("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {json_text(value)}: {detail}")


def wrong_type(field: str, actual: str, expected: str) -> Cause:
    """Return the cause for a value whose type differs from the schema's; both types are named as in JSON Schema."""
    detail = f'Invalid value: "{actual}": {field} in body must be of type {expected}: "{actual}"'
    return Cause("FieldValueTypeInvalid", field, detail)


def unsupported(field: str, value: object, allowed: Sequence[object]) -> Cause:
    """Return the cause for a value that is not among the allowed ones."""
    supported = ", ".join(map(json_text, allowed))
    return Cause(
        "FieldValueNotSupported", field, f"Unsupported value: {json_text(value)}: supported values: {supported}"
    )


def duplicate(field: str, value: object) -> Cause:
    """Return the cause for a duplicate item in a list."""
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {json_text(value)}")


def forbidden_field(field: str, detail: str) -> Cause:
    """Return the cause for a field that may not be set this way."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_found(kind: Kind, name: str) -> StatusError:
    """Return 404 NotFound for an object."""
    return StatusError(404, "NotFound", f'{kind.qualified} "{name}" not found', _details(kind, name, kind.plural))


def no_such_resource() -> StatusError:
    """Return 404 NotFound for a path without a resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> StatusError:
    """Return 409 AlreadyExists."""
    return StatusError(
        409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', _details(kind, name, kind.plural)
    )


def conflict(kind: Kind, name: str, detail: str, subresource: str = "") -> StatusError:
    """Return 409 Conflict."""
    subpath = f"/{subresource}" if subresource else ""
    message = f'Operation cannot be fulfilled on {kind.qualified}{subpath} "{name}": {detail}'
    return StatusError(409, "Conflict", message, _details(kind, name, kind.plural + subpath))


def modified(kind: Kind, name: str) -> StatusError:
    """Return 409 Conflict for an outdated resourceVersion."""
    detail = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, detail)


def invalid(kind: Kind, name: str, causes: Iterable[Cause]) -> StatusError:
    """Return 422 Invalid with its causes."""
    what = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return _invalid(what, name, list(causes), _details(kind, name, kind.kind))


def invalid_options(options: str, cause: Cause) -> StatusError:
    """Return 422 Invalid for the options of a request, such as "PatchOptions"."""
    return _invalid(f"{options}.meta.k8s.io", "", [cause], {"group": "meta.k8s.io", "kind": options})


def apply_conflict(fields: Sequence[tuple[str, str]]) -> StatusError:
    """Return 409 Conflict for fields of other managers, each as (manager, path)."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in fields
    ]
    if len(fields) == 1:
        message = f"Apply failed with 1 conflict: conflict with {fields[0][0]}: {fields[0][1]}"
    else:
        groups: dict[str, list[str]] = {}
        for manager, path in fields:
            groups.setdefault(manager, []).append(f"- {path}")
        listed = "\n".join(f"conflicts with {manager}:\n" + "\n".join(paths) for manager, paths in groups.items())
        message = f"Apply failed with {len(fields)} conflicts: {listed}"
    return StatusError(409, "Conflict", message, {"causes": causes})


def bad_request(message: str) -> StatusError:
    """Return 400 BadRequest."""
    return StatusError(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, detail: str, details: Object | None = None) -> StatusError:
    """Return 403 Forbidden."""
    message = f'{kind.qualified} "{name}" is forbidden: {detail}'
    return StatusError(403, "Forbidden", message, {**_details(kind, name, kind.plural), **(details or {})})


def expired(message: str) -> StatusError:
    """Return 410 Expired: the requested version is no longer known."""
    return StatusError(410, "Expired", message)


def too_large_version(version: int, current: int) -> StatusError:
    """Return 504 Timeout for a version from the future."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def unauthorized() -> StatusError:
    """Return 401 Unauthorized."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    """Return 405 MethodNotAllowed."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    """Return 415 UnsupportedMediaType."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return StatusError(415, "UnsupportedMediaType", message)


def protobuf_body(accepted: Iterable[str]) -> StatusError:
    """Return 415 UnsupportedMediaType for an object in protobuf, in which only kubectl create sends some kinds."""
    advice = "this server does not read protobuf; use kubectl create ... --dry-run=client -o yaml | kubectl apply -f -"
    return StatusError(415, "UnsupportedMediaType", f"{unsupported_media_type(accepted).message} ({advice})")


def unprocessable_patch() -> StatusError:
    """Return 422 Invalid with the server's message for a JSON Patch that cannot be applied."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def internal(message: str) -> StatusError:
    """Return a 500 without a reason, which the server sends for some invalid requests."""
    return StatusError(500, "", message)


def json_text(value: object) -> str:
    """Return a value in the notation of messages: JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _invalid(what: str, name: str, causes: list[Cause], details: Object) -> StatusError:
    messages = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    listed_causes = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    return StatusError(422, "Invalid", f'{what} "{name}" is invalid: {listed}', {**details, "causes": listed_causes})


def _details(kind: Kind, name: str, what: str) -> Object:
    details: Object = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": what}
