"""The patches that set what rules give a Node besides labels: annotations, extended resources, taints. Pure functions.

Invariant: outputs of other managers are never touched, and none of ours is left behind.

1. Our outputs are those that the record names, an annotation of one instance of the agent. The record is written
   together with annotations and taints, and before extended resources, which have their own endpoint. A name is removed
   from the record after its resource.
2. An output that is present and not in the record belongs to another manager, even if its value is the desired one.
3. An output that another instance's record or an annotation of Node Feature Discovery's master names is not ours, even
   if we set it before. So two agents, or an agent and a master, never overwrite each other.
4. The NodeFeatureGroups of the Node are in an annotation of the instance. If the groups are unknown, the annotation
   does not change.
"""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_common.k8s.feature_groups import ANNOTATION_PREFIX, groups_text
from zonewise_common.k8s.quantity import parse_milli_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.rules.types import Taint

RECORD = "zonewise.dev/rules."
"""Prefix of the record's annotation; the name of the instance follows."""

_NFD = "nfd.node.kubernetes.io"
_NFD_RECORDS = {"annotations": "feature-annotations", "extendedResources": "extended-resources", "taints": "taints"}
_NFD_NAMESPACE = "feature.node.kubernetes.io"
_MAX_NAME = 63

Object = dict[str, Any]


class NodeOutputs(NamedTuple):
    """The outputs of rules for a Node."""

    annotations: Mapping[str, str] = MappingProxyType({})
    extended_resources: Mapping[str, str] = MappingProxyType({})
    """Quantities by name."""
    taints: tuple[Taint, ...] = ()
    groups: tuple[str, ...] | None = None
    """NodeFeatureGroups that the Node belongs to; None if they are not known."""


class NodePatches(NamedTuple):
    """Merge patches (RFC 7386) in the order in which they are sent; an empty one is not sent."""

    node: Object
    status: Object
    """Patch of the subresource "status"."""
    record: Object
    """Second patch of the Node, after the status: it removes from the record what is no longer ours."""
    problems: tuple[str, ...] = ()
    """Outputs that another manager has set to other values; each is a sentence."""


class _Ownership(NamedTuple):
    """Names that are ours, and names that another manager records as its own."""

    ours: frozenset[str]
    claimed: frozenset[str]


class _Changes(NamedTuple):
    """The changes of one kind of output."""

    values: dict[str, str | None]
    """New values; None removes the output."""
    owned: list[str]
    problems: list[str]


def record_name(instance: str) -> str:
    """Return the name of the annotation that contains an instance's record."""
    return _annotation_name(RECORD, instance)


def groups_name(instance: str) -> str:
    """Return the annotation in which an instance names the NodeFeatureGroups of the Node."""
    return _annotation_name(ANNOTATION_PREFIX, instance)


def has_record(node: Object, instance: str) -> bool:
    """Return whether an instance has set anything on the Node."""
    return not {record_name(instance), groups_name(instance)}.isdisjoint(_annotations(node))


def withdrawal_patches(node: Object, instance: str) -> NodePatches:
    """Return the patches that remove everything that an instance has set."""
    patches = node_patches(NodeOutputs(), node, instance)
    if groups_name(instance) not in _annotations(node):
        return patches
    metadata = patches.node.get("metadata") or _versioned(node)
    annotations = {**metadata.get("annotations", {}), groups_name(instance): None}
    return patches._replace(node={**patches.node, "metadata": {**metadata, "annotations": annotations}})


def node_patches(desired: NodeOutputs, node: Object, instance: str) -> NodePatches:
    """Return the patches that give a Node the desired outputs."""
    annotations = _changes(
        "annotation", desired.annotations, _annotations(node), _owners("annotations", node, instance)
    )
    resources = _resource_changes(desired.extended_resources, node, instance)
    taint_list, taints = _taint_changes(desired.taints, node, instance)
    final = {"annotations": annotations.owned, "extendedResources": resources.owned, "taints": taints.owned}
    kept = [name for name, value in resources.values.items() if value is None]
    during = {**final, "extendedResources": sorted({*resources.owned, *kept})}
    status = {"capacity": resources.values, "allocatable": resources.values} if resources.values else {}
    return NodePatches(
        _node_patch(
            {**annotations.values, record_name(instance): _record(during), **_groups(desired, instance)},
            taint_list,
            node,
        ),
        {"status": status} if status else {},
        {"metadata": {"annotations": {record_name(instance): _record(final)}}} if during != final else {},
        (*annotations.problems, *resources.problems, *taints.problems),
    )


def _annotation_name(prefix: str, instance: str) -> str:
    name = prefix.partition("/")[2] + instance
    return prefix + (instance if len(name) <= _MAX_NAME else hashlib.sha256(instance.encode()).hexdigest()[:40])


def _groups(desired: NodeOutputs, instance: str) -> dict[str, str]:
    return {} if desired.groups is None else {groups_name(instance): groups_text(desired.groups)}


def _node_patch(annotations: Mapping[str, str | None], taints: list[Object] | None, node: Object) -> Object:
    current = _annotations(node)
    changes = {name: value for name, value in annotations.items() if value != current.get(name)}
    patch: Object = {"spec": {"taints": taints}} if taints is not None else {}
    if not changes and not patch:
        return {}
    return {"metadata": {**_versioned(node), **({"annotations": changes} if changes else {})}, **patch}


def _versioned(node: Object) -> Object:
    return {"resourceVersion": node["metadata"]["resourceVersion"]}


def _changes(what: str, desired: Mapping[str, str], current: Mapping[str, str], owners: _Ownership) -> _Changes:
    changes: dict[str, str | None] = dict.fromkeys(sorted(owners.ours & current.keys() - desired.keys()))
    owned: list[str] = []
    problems: list[str] = []
    for name, value in sorted(desired.items()):
        present = current.get(name)
        if name in owners.ours or (present is None and name not in owners.claimed):
            owned.append(name)
            if present != value:
                changes[name] = value
        elif present is not None and present != value:
            problems.append(
                f"{what} {name} has the value {present[:100]!r} of another manager, and is not set to {value[:100]!r}"
            )
    return _Changes(changes, owned, problems)


def _resource_changes(desired: Mapping[str, str], node: Object, instance: str) -> _Changes:
    status = cast("Object", node.get("status") or {})
    capacity = cast("Object", status.get("capacity") or {})
    current = {name: str(value) for name, value in capacity.items()}
    # the server stores "1000" as "1k": equal quantities are equal
    alike = {name: value for name, value in desired.items() if name in current and _same(value, current[name])}
    return _changes("extended resource", {**desired, **{name: current[name] for name in alike}}, current,
                       _owners("extendedResources", node, instance))  # fmt: skip


def _same(first: str, second: str) -> bool:
    try:
        return parse_milli_value(first) == parse_milli_value(second)
    except ValueError:
        return False


def _taint_changes(desired: tuple[Taint, ...], node: Object, instance: str) -> tuple[list[Object] | None, _Changes]:
    """Return the new list of taints, None if it is unchanged, and the changes by KEY:EFFECT."""
    present = cast("list[Object]", cast("Object", node.get("spec") or {}).get("taints") or [])
    current = {_identity(taint): str(taint.get("value") or "") for taint in present}
    by_id = {f"{taint.key}:{taint.effect}": taint for taint in desired}
    values = {name: taint.value for name, taint in by_id.items()}
    changes = _changes("taint", values, current, _owners("taints", node, instance))
    if not changes.values:
        return None, changes
    others = [taint for taint in present if _identity(taint) not in changes.values]
    added = [by_id[name] for name, value in changes.values.items() if value is not None]
    return [*others, *map(_taint_object, added)], changes


def _taint_object(taint: Taint) -> Object:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}


def _identity(taint: Object) -> str:
    return f"{taint.get('key', '')}:{taint.get('effect', '')}"


# --- records


def _annotations(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}


def _record(owned: Mapping[str, list[str]]) -> str | None:
    names = {kind: sorted(values) for kind, values in sorted(owned.items()) if values}
    return json.dumps(names, separators=(",", ":")) if names else None


def _owners(kind: str, node: Object, instance: str) -> _Ownership:
    own = record_name(instance)
    ours: set[str] = set()
    claimed = set(_claimed_by_nfd(kind, node))
    for name, text in _annotations(node).items():
        if name == own:
            ours.update(_recorded(kind, text))
        elif name.startswith(RECORD):
            claimed.update(_recorded(kind, text))
    return _Ownership(frozenset(ours - claimed), frozenset(claimed))


def _recorded(kind: str, text: str) -> Iterable[str]:
    """Return the names in a record; none if the record is damaged, so that nothing is removed by mistake."""
    try:
        record: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    names = cast("dict[str, object]", record).get(kind) if isinstance(record, dict) else None
    return [name for name in cast("list[object]", names) if isinstance(name, str)] if isinstance(names, list) else ()


def _claimed_by_nfd(kind: str, node: Object) -> Iterable[str]:
    """Yield the names that masters of Node Feature Discovery record; a named instance has its own prefix."""
    record = f"{_NFD}/{_NFD_RECORDS[kind]}"
    for annotation, text in _annotations(node).items():
        if annotation != record and not annotation.endswith(f".{record}"):
            continue
        for name in filter(None, text.split(",")):
            if kind == "taints":  # KEY=VALUE:EFFECT
                key, _, effect = name.strip().rpartition(":")
                yield f"{key.partition('=')[0]}:{effect}"
            else:
                yield name if "/" in name else f"{_NFD_NAMESPACE}/{name}"
