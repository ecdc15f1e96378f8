"""Exclusions from the report: resources by name, and pods by namespace, name and labels.

An excluded resource is not shown, and nothing else changes. The resources of an excluded pod are removed from the
node's allocatable amounts, as if they were reserved. The other amounts remain correct. Fingerprints and placement
include excluded pods, since schedulers compare them with all pods of the node.

resource-topology-exporter's podExclude drops pods from the kubelet's List instead. Their resources then look available,
and the fingerprint differs from that of a scheduler (pkg/podres/middleware/podexclude).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_POD_KEYS = ("namespace", "name", "labels")


class PodPattern(NamedTuple):
    """Pods that match every given field; the values are shell patterns (`*`, `?`, `[ab]`)."""

    namespace: str = "*"
    name: str = "*"
    labels: tuple[tuple[str, str], ...] = ()
    """Sorted by name."""

    def matches(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod matches."""
        return (
            fnmatchcase(namespace, self.namespace)
            and fnmatchcase(name, self.name)
            and all(label in labels and fnmatchcase(labels[label], value) for label, value in self.labels)
        )


class Exclusions(NamedTuple):
    """The resources and pods to exclude."""

    resources: tuple[tuple[str, str], ...] = ()
    """Pairs (pattern of nodes, pattern of resources), both shell patterns."""
    pods: tuple[PodPattern, ...] = ()

    def resource_patterns(self, node: str) -> tuple[str, ...]:
        """Return the patterns of the resources that are excluded on one node."""
        return tuple(resource for nodes, resource in self.resources if fnmatchcase(node, nodes))

    def needs_labels(self) -> bool:
        """Return whether a pattern needs the labels of pods, which PodResources does not provide."""
        return any(pattern.labels for pattern in self.pods)


def parse_exclusions(value: object) -> Exclusions:
    """Return the exclusions in the key `exclude`; raise ValueError, which names the field and the value.

    Resources are a list for all nodes, or lists by node: `resources: {"*": [memory], "login-*": [cpu]}`.
    """
    fields = _mapping(value, "exclude", ("resources", "pods"))
    return Exclusions(
        tuple(_resources(fields.get("resources") or [])),
        tuple(_pod(item, f"exclude.pods[{number}]") for number, item in enumerate(_list(fields.get("pods"), "pods"))),
    )


def _resources(value: object) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        value = {"*": value}
    for node, names in cast("Mapping[Any, Any]", value).items():
        for name in _list(names, "resources" if node == "*" else f"resources[{node}]"):
            yield str(node), _string(name, "exclude.resources")


def _pod(value: object, field: str) -> PodPattern:
    fields = _mapping(value, field, _POD_KEYS)
    if not fields:
        raise ValueError(f"{field}: excludes every pod; set a namespace, a name or labels")
    labels = _mapping(fields.get("labels") or {}, f"{field}.labels", None)
    return PodPattern(
        _string(fields.get("namespace", "*"), f"{field}.namespace"),
        _string(fields.get("name", "*"), f"{field}.name"),
        tuple(sorted((str(name), _string(text, f"{field}.labels.{name}")) for name, text in labels.items())),
    )


def _mapping(value: object, field: str, known: tuple[str, ...] | None) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{field}: {value!r} must be a mapping of fields")
    fields = cast("Mapping[Any, Any]", value)
    unknown = [name for name in fields if known is not None and name not in known]
    if unknown:
        raise ValueError(f"{field}.{unknown[0]}: unknown key; the keys are {', '.join(known or ())}")
    return fields


def _list(value: object, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"exclude.{field}: {value!r} must be a list")
    return cast("list[Any]", value)


def _string(value: object, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field}: {value!r} must be a string")
    return value
