"""As much of OpenAPI v3 as kubectl asks for before it applies: that the server itself validates fields and runs dry.

kubectl reads /openapi/v3 and, for the version it is about to write, whether PATCH takes the parameters `dryRun` and
`fieldValidation` (k8s.io/cli-runtime/pkg/resource/query_param_verifier_v3.go). Types are not described.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.discovery import VERSION
from zonewise_sandbox.apiserver.reviews import is_review_kind

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind, Registry

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def open_api(registry: Registry, parts: list[str]) -> Object | None:
    """Return what is at a path below /openapi/v3, given as its parts; None where there is nothing."""
    kinds = [kind for kind in registry.all() if not is_review_kind(kind)]
    if not parts:
        groups = dict.fromkeys(_path(kind) for kind in kinds)
        return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in groups}}
    found = [kind for kind in kinds if _path(kind) == "/".join(parts)]
    if not found:
        return None
    info = {"title": "zonewise", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": {_of_object(kind): _operations(kind) for kind in found}}


def _path(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def _of_object(kind: Kind) -> str:
    namespace = "namespaces/{namespace}/" if kind.namespaced else ""
    return f"/{_path(kind)}/{namespace}{kind.plural}/{{name}}"


def _operations(kind: Kind) -> Object:
    named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS]
    patch = {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": named,
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }
    return {"patch": patch}
