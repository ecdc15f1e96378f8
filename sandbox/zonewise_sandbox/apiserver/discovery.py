"""Discovery: which groups, versions and resources there are, for clients that ask before they act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.kinds import POD
from zonewise_sandbox.apiserver.reviews import is_review_kind

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind, Registry


VERSION: Object = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+zonewise",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""The release whose behaviour is copied."""
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")


def discover(registry: Registry, parts: list[str]) -> Object | None:
    """Return what is at a discovery path, such as ["apis", "batch", "v1"]; None where there is nothing."""
    kinds = registry.all()
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if parts == ["apis"]:
        names = dict.fromkeys(kind.group for kind in kinds if kind.group)
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(kinds, name) for name in names]}
    if parts[0] == "api" and len(parts) == 2:
        return _resources(kinds, "", parts[1])
    if parts[0] == "apis" and len(parts) == 2 and any(kind.group == parts[1] for kind in kinds):
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(kinds, parts[1])}
    if parts[0] == "apis" and len(parts) == 3:
        return _resources(kinds, parts[1], parts[2])
    return None


def _group(kinds: list[Kind], name: str) -> Object:
    versions = dict.fromkeys(kind.version for kind in kinds if kind.group == name)
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _resources(kinds: list[Kind], group: str, version: str) -> Object | None:
    found = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not found:
        return None
    listed = [one for kind in found for one in _of_kind(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": listed,
    }


def _of_kind(kind: Kind) -> list[Object]:
    verbs = ["create"] if is_review_kind(kind) else list(_VERBS)
    made: Object = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced}
    made |= {"kind": kind.kind, "verbs": verbs}
    if kind.short_names:
        made["shortNames"] = list(kind.short_names)
    found = [made]
    if kind.status:
        found.append(_subresource(kind, "status", kind.kind, _STATUS_VERBS))
    if kind.resource == POD.resource:
        found.append(_subresource(kind, "binding", "Binding", ("create",)))
        found.append(_subresource(kind, "eviction", "Eviction", ("create",)))
    return found


def _subresource(kind: Kind, name: str, of: str, verbs: tuple[str, ...]) -> Object:
    plural = f"{kind.plural}/{name}"
    return {"name": plural, "singularName": "", "namespaced": kind.namespaced, "kind": of, "verbs": list(verbs)}
