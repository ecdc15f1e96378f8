"""The type information that server-side apply needs: the keys of lists, and the values that have a single owner.

A shape describes one position in an object. For custom resources, it comes from the structural schema
(x-kubernetes-list-type, x-kubernetes-map-type), for built-in kinds from the table in `merge_rules`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_sandbox.apiserver.json_values import is_object, object_in
from zonewise_sandbox.apiserver.patches.merge_rules import is_atomic, is_map, merge_rule

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object, Value


_ALWAYS_SET = frozenset({"spec", "status", "template", "containers", "names"})


class ItemRule(NamedTuple):
    """How the items of a list are identified."""

    keys: tuple[str, ...] = ()
    set: bool = False

    @property
    def atomic(self) -> bool:
        """Return whether the list has a single owner."""
        return not self.keys and not self.set

    def element(self, item: Value, shape: Shape) -> str:
        """Return the path element of an item in the notation of FieldsV1: k:{"name":"x"} or v:"x".

        Raises KeyError if a key is absent and has no default.
        """
        if self.set:
            return f"v:{_compact(item)}"
        keys = {name: item[name] if name in item else shape.key_default(name) for name in sorted(self.keys)}
        return f"k:{_compact(keys)}"


class Shape(Protocol):
    """The type at one position."""

    @property
    def atomic(self) -> bool:
        """Return whether an object here has a single owner."""
        ...

    def field(self, name: str) -> tuple[Shape, bool]:
        """Return the shape of a field, and whether the type declares the field (instead of allowing arbitrary keys)."""
        ...

    def items(self) -> tuple[Shape, ItemRule]:
        """Return the shape of the items of a list here, and how they are identified."""
        ...

    def key_default(self, name: str) -> Value:
        """Return the default of a field that is a list key; raise KeyError if it has none."""
        ...

    def is_always_set(self, name: str) -> bool:
        """Return whether a field of this name is present even without a writer, and so has no owner."""
        ...


class BuiltInShape:
    """A position in a built-in kind, or in the metadata of any kind."""

    def __init__(self, kind: str, name: str = "") -> None:
        """Create the shape for a field of a kind; "" stands for the whole object."""
        self._kind = kind
        self._name = name

    @property
    def atomic(self) -> bool:
        """Return whether an object here has a single owner."""
        return is_atomic(self._name)

    def field(self, name: str) -> tuple[Shape, bool]:
        """Return the shape of a field, and whether the type declares it."""
        return BuiltInShape(self._kind, name), not is_map(self._name)

    def items(self) -> tuple[Shape, ItemRule]:
        """Return the shape of the items of a list here, and how they are identified."""
        rule = merge_rule(self._kind, self._name)
        return BuiltInShape(self._kind, f"{self._name}[]"), ItemRule(rule.keys, rule.set)

    def key_default(self, name: str) -> Value:
        """Return the default of a key; only the protocol of a port has one."""
        return {"protocol": "TCP"}[name]

    def is_always_set(self, name: str) -> bool:
        """Return whether a field of this name is a Go struct, or a list without omitempty, which is never absent."""
        return name in _ALWAYS_SET


class SchemaShape:
    """A position in a custom resource."""

    def __init__(self, schema: Object, *, root: bool = False) -> None:
        """Create the shape from the position's schema; the root has metadata, which the schema does not describe."""
        self._schema = schema
        self._root = root

    @property
    def atomic(self) -> bool:
        """Return whether an object here has a single owner."""
        return self._schema.get("x-kubernetes-map-type") == "atomic"

    def field(self, name: str) -> tuple[Shape, bool]:
        """Return the shape of a field, and whether the schema declares it."""
        if self._root and name in {"apiVersion", "kind", "metadata"}:
            return BuiltInShape("", name), True
        declared = self._schema.get("properties", {}).get(name)
        if declared is not None:
            return SchemaShape(declared), True
        additional = self._schema.get("additionalProperties")
        return SchemaShape(additional if is_object(additional) else {}), False

    def items(self) -> tuple[Shape, ItemRule]:
        """Return the shape of the items of a list here, and how they are identified."""
        kind = self._schema.get("x-kubernetes-list-type", "atomic")
        keys = tuple(self._schema.get("x-kubernetes-list-map-keys", ())) if kind == "map" else ()
        return SchemaShape(object_in(self._schema, "items")), ItemRule(keys, kind == "set")

    def key_default(self, name: str) -> Value:
        """Return the default of a field that is a list key; raise KeyError if it has none."""
        return self._schema["properties"][name]["default"]

    def is_always_set(self, name: str) -> bool:  # noqa: ARG002 -- as the protocol says
        """Return false: every field of a custom resource has a writer."""
        return False


def _compact(value: Value) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
