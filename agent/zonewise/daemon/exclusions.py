"""What a report leaves out on request: resources by name, and pods by namespace, name and labels.

A resource that is excluded is not shown, and nothing else changes. A pod that is excluded is not counted: what it
holds is taken out of what the node can give at all, as if it were reserved, so that the rest stays right.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_POD_KEYS = ("namespace", "name", "labels")


class PodPattern(NamedTuple):
    """Pods of which everything given here is true; the values are shell patterns (`*`, `?`, `[ab]`)."""

    namespace: str = "*"
    name: str = "*"
    labels: tuple[tuple[str, str], ...] = ()
    """Sorted by name."""

    def matches(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod is one of them."""
        return (
            fnmatchcase(namespace, self.namespace)
            and fnmatchcase(name, self.name)
            and all(label in labels and fnmatchcase(labels[label], value) for label, value in self.labels)
        )


class Exclusions(NamedTuple):
    """What to leave out."""

    resources: tuple[tuple[str, str], ...] = ()
    """(pattern of nodes, pattern of resources), both of the shell's kind."""
    pods: tuple[PodPattern, ...] = ()

    def resource_patterns(self, node: str) -> tuple[str, ...]:
        """Return the patterns of resources that are left out on one node."""
        return tuple(resource for nodes, resource in self.resources if fnmatchcase(node, nodes))

    def needs_labels(self) -> bool:
        """Tell whether pods cannot be judged without their labels, which PodResources does not tell."""
        return any(pattern.labels for pattern in self.pods)


def parse_exclusions(value: object) -> Exclusions:
    """Return the exclusions of the key `exclude`; raise ValueError naming the field and the value.

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


def _pod(value: object, place: str) -> PodPattern:
    fields = _mapping(value, place, _POD_KEYS)
    if not fields:
        raise ValueError(f"{place}: excludes every pod; name a namespace, a name or labels")
    labels = _mapping(fields.get("labels") or {}, f"{place}.labels", None)
    return PodPattern(
        _string(fields.get("namespace", "*"), f"{place}.namespace"),
        _string(fields.get("name", "*"), f"{place}.name"),
        tuple(sorted((str(name), _string(text, f"{place}.labels.{name}")) for name, text in labels.items())),
    )


def _mapping(value: object, place: str, known: tuple[str, ...] | None) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{place}: {value!r} must be fields by name")
    fields = cast("Mapping[Any, Any]", value)
    unknown = [name for name in fields if known is not None and name not in known]
    if unknown:
        raise ValueError(f"{place}.{unknown[0]}: unknown key; there is {', '.join(known or ())}")
    return fields


def _list(value: object, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"exclude.{place}: {value!r} must be a list")
    return cast("list[Any]", value)


def _string(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{place}: {value!r} must be a text")
    return value
