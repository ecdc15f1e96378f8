"""How lists and maps of built-in kinds merge: by keys, as sets, or not at all.

A table of the markers in k8s.io/api (listType, listMapKey, patchMergeKey, mapType, structType) for the kinds that are
served. The key is the field's name, which means the same list in every kind, except for the few in `_KIND_LISTS`. Lists
that are not named here are atomic, so they are replaced as a whole.
"""

from __future__ import annotations

from typing import NamedTuple


class MergeRule(NamedTuple):
    """How the items of a list are identified."""

    keys: tuple[str, ...] = ()
    """Keys for server-side apply (listMapKey); if empty, the list is a set of scalars or atomic."""
    patch_key: str = ""
    """Key for strategic merge patch (patchMergeKey); if "", the list is replaced, or merged as a set if `set` is
    true."""
    set: bool = False
    """Whether both mechanisms merge the list as a set of scalars."""


_BY_NAME = MergeRule(("name",), "name")
_BY_TYPE = MergeRule(("type",), "type")

_LISTS = {
    "containers": _BY_NAME,
    "initContainers": _BY_NAME,
    "ephemeralContainers": _BY_NAME,
    "volumes": _BY_NAME,
    "env": _BY_NAME,
    "imagePullSecrets": _BY_NAME,
    "schedulingGates": _BY_NAME,
    "resourceClaims": _BY_NAME,
    "claims": MergeRule(("name",)),
    "secrets": _BY_NAME,
    "resourceClaimStatuses": _BY_NAME,
    "allocatedResourcesStatus": _BY_NAME,
    "ports": MergeRule(("containerPort", "protocol"), "containerPort"),
    "volumeMounts": MergeRule(("mountPath",), "mountPath"),
    "volumeDevices": MergeRule(("devicePath",), "devicePath"),
    "hostAliases": MergeRule(("ip",), "ip"),
    "podIPs": MergeRule(("ip",), "ip"),
    "hostIPs": MergeRule((), "ip"),
    "topologySpreadConstraints": MergeRule(("topologyKey", "whenUnsatisfiable"), "topologyKey"),
    "conditions": _BY_TYPE,
    "addresses": _BY_TYPE,
    "ownerReferences": MergeRule(("uid",), "uid"),
    "finalizers": MergeRule(set=True),
    "podCIDRs": MergeRule(set=True),
}

_KIND_LISTS = {
    ("Service", "ports"): MergeRule(("port", "protocol"), "port"),
    ("Job", "conditions"): MergeRule((), "type"),
}

_ATOMIC = frozenset(
    {
        "configMapKeyRef",
        "fieldRef",
        "involvedObject",
        "claimRef",
        "nodeSelector",
        "nodeSelectorTerms",
        "resourceFieldRef",
        "secretKeyRef",
        "selector",
        "labelSelector",
        "namespaceSelector",
        "source",
    }
)

_MAPS = frozenset(
    {
        "annotations",
        "allocatable",
        "allocatedResources",
        "binaryData",
        "capacity",
        "data",
        "labels",
        "limits",
        "overhead",
        "requests",
        "stringData",
    }
)

_ATOMIC_LIST = MergeRule()


def merge_rule(kind: str, field: str) -> MergeRule:
    """Return how a list field of a built-in kind is merged."""
    return _KIND_LISTS.get((kind, field)) or _LISTS.get(field, _ATOMIC_LIST)


def is_atomic(field: str) -> bool:
    """Return whether an object field has a single owner for all of its content."""
    return field in _ATOMIC


def is_map(field: str) -> bool:
    """Return whether an object field has arbitrary keys instead of declared ones."""
    return field in _MAPS
