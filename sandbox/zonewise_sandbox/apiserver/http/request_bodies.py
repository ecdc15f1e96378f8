"""Request bodies: JSON or YAML by content type, and patches of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from zonewise_common.k8s.yaml_document import load_yaml
from zonewise_sandbox.apiserver.json_values import is_list, is_object
from zonewise_sandbox.apiserver.patches.json_patch import JsonPatchError, json_patch
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_sandbox.apiserver.patches.strategic_merge_patch import StrategicPatchError, strategic_merge_patch
from zonewise_sandbox.apiserver.status_errors import (
    StatusError,
    bad_request,
    internal,
    protobuf_body,
    unprocessable_patch,
    unsupported_media_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_sandbox.apiserver.json_values import Object, Value
    from zonewise_sandbox.apiserver.kinds import Kind


JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def parse_object(body: bytes, content_type: str, kind: Kind) -> Object:
    """Return the object in a body. Raises StatusError: 415 for an unsupported content type, 400 for another value."""
    if content_type == PROTOBUF:
        raise protobuf_body((JSON, YAML))
    if content_type not in {"", JSON, YAML}:
        raise unsupported_media_type((JSON, YAML))
    value = _parsed(body, kind, yaml=content_type == YAML)
    if not is_object(value):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): no object")
    return value


def parse_options(body: bytes, content_type: str) -> Object:
    """Return the DeleteOptions in the body of a deletion, or none if it is empty. Raises StatusError (415, 400)."""
    if not body:
        return {}
    if content_type not in {"", JSON}:
        raise unsupported_media_type((JSON,))
    try:
        value: Value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    return value if is_object(value) else {}


def parse_applied(body: bytes, kind: Kind) -> Object:
    """Return the configuration in a body of server-side apply, which is YAML and usually also JSON."""
    value = _parsed(body, kind, yaml=not body.lstrip().startswith(b"{"))
    if not is_object(value):
        raise bad_request("error decoding YAML: no object")
    return value


def parse_patch(body: bytes, content_type: str, kind: Kind) -> Callable[[Object], Object]:
    """Return a patch as a function of an object. Raises StatusError (415, 400), as does the function (422, 500)."""
    if content_type not in {JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH}:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if content_type == STRATEGIC_PATCH and kind.custom:
        raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
    value = _parsed(body, kind, yaml=False)
    if content_type == JSON_PATCH:
        if not is_list(value):
            raise bad_request("error decoding patch: json: cannot unmarshal object into []handlers.jsonPatchOp")
        return lambda obj: _json_patched(obj, value)
    if not is_object(value):
        raise bad_request("error decoding patch: json: cannot unmarshal into map[string]interface {}")
    if content_type == MERGE_PATCH:
        return lambda obj: merge_patch(obj, value)
    return lambda obj: _strategic_patched(kind, obj, value)


def _parsed(body: bytes, kind: Kind, *, yaml: bool) -> Value:
    try:
        return cast("Value", load_yaml(body)) if yaml else msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        problem = f"the object provided is unrecognized (must be of type {kind.kind})"
        beginning = body[:80].decode(errors="replace")
        raise bad_request(f"{problem}: couldn't get version/kind; json parse error: {error} ({beginning})") from None


def _json_patched(obj: Object, operations: list[Value]) -> Object:
    try:
        patched = json_patch(obj, operations)
    except JsonPatchError:
        raise unprocessable_patch() from None
    if not is_object(patched):
        raise unprocessable_patch()
    return patched


def _strategic_patched(kind: Kind, obj: Object, patch: Object) -> Object:
    try:
        return strategic_merge_patch(kind.kind, obj, patch)
    except StrategicPatchError as error:
        raise internal(str(error)) from None
