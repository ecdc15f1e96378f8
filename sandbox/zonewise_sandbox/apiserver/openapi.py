"""The part of OpenAPI that kubectl reads: before an apply, the options of PATCH; for `explain`, the custom kinds.

kubectl reads /openapi/v3 and, for the version to be written, whether PATCH accepts the parameters `dryRun` and
`fieldValidation` (k8s.io/cli-runtime/pkg/resource/query_param_verifier_v3.go). `kubectl explain` finds the schema of a
kind by its extension (k8s.io/kubectl/pkg/explain/v2/templates/plaintext.tmpl). Built-in kinds have no schema.

A List is not a kind of the server. kubectl validates its items by the types of /openapi/v2, and skips items of absent
types (k8s.io/kubectl/pkg/util/openapi/validation/validation.go ValidateBytes, validateResource). The server validates
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.discovery import VERSION
from zonewise_sandbox.apiserver.reviews import is_review_kind

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind, Registry

OPENAPI_V2 = b"\x0a\x032.0"
"""An OpenAPI v2 document without types, in protobuf: field 1, `swagger`, is "2.0"."""
OPENAPI_V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Its content type: kubectl reads it only as protobuf."""
_GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def open_api(registry: Registry, parts: list[str]) -> Object | None:
    """Return the document at a path below /openapi/v3, split into parts; None for an unknown path."""
    kinds = [kind for kind in registry.all() if not is_review_kind(kind)]
    if not parts:
        groups = dict.fromkeys(_path(kind) for kind in kinds)
        return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in groups}}
    kinds_at_path = [kind for kind in kinds if _path(kind) == "/".join(parts)]
    if not kinds_at_path:
        return None
    info = {"title": "zonewise", "version": VERSION["gitVersion"]}
    paths = {_object_path(kind): _operations(kind) for kind in kinds_at_path}
    schemas = {f"{kind.api_version}.{kind.kind}": _schema(kind) for kind in kinds_at_path if kind.schema is not None}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _path(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def _object_path(kind: Kind) -> str:
    namespace = "namespaces/{namespace}/" if kind.namespaced else ""
    return f"/{_path(kind)}/{namespace}{kind.plural}/{{name}}"


def _schema(kind: Kind) -> Object:
    return {**(kind.schema or {}), _GROUP_VERSION_KIND: [_group_version_kind(kind)]}


def _group_version_kind(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _operations(kind: Kind) -> Object:
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS]
    patch = {
        "x-kubernetes-action": "patch",
        _GROUP_VERSION_KIND: _group_version_kind(kind),
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }
    return {"patch": patch}
