"""Discovery: the groups, versions and resources that the server offers."""

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
"""The release whose behaviour is imitated."""
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")
_OF_ALL = frozenset({"daemonsets", "deployments", "jobs", "pods", "services", "statefulsets"})
"""The kinds of `kubectl get all` (pkg/registry, Categories of each REST)."""


def discover(registry: Registry, parts: list[str]) -> Object | None:
    """Return the document at a discovery path, such as ["apis", "batch", "v1"]; None for an unknown path."""
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
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kinds: list[Kind], group: str, version: str) -> Object | None:
    served = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not served:
        return None
    listed = [resource for kind in served for resource in _kind_resources(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": listed,
    }


def _kind_resources(kind: Kind) -> list[Object]:
    verbs = ["create"] if is_review_kind(kind) else list(_VERBS)
    main: Object = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced}
    main |= {"kind": kind.kind, "verbs": verbs}
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.plural in _OF_ALL and not kind.custom:
        main["categories"] = ["all"]
    resources = [main]
    if kind.status:
        resources.append(_subresource(kind, "status", kind.kind, _STATUS_VERBS))
    if kind.resource == POD.resource:
        resources.append(_subresource(kind, "binding", "Binding", ("create",)))
        # kubectl drain evicts only if these fields are present (kubectl pkg/drain CheckEvictionSupport)
        eviction = _subresource(kind, "eviction", "Eviction", ("create",))
        resources.append({**eviction, "group": "policy", "version": "v1"})
    return resources


def _subresource(kind: Kind, name: str, kind_name: str, verbs: tuple[str, ...]) -> Object:
    plural = f"{kind.plural}/{name}"
    return {"name": plural, "singularName": "", "namespaced": kind.namespaced, "kind": kind_name, "verbs": list(verbs)}
