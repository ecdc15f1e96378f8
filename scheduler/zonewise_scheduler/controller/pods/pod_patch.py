"""JSON patches of held pods (KEP-3838; pkg/apis/core/validation/validation.go ValidatePodUpdate).

A patch of a spec is idempotent: repeated after a lost response, it succeeds and changes nothing. Its only test
operation is for the UID, since the API server itself validates each patch of a spec. The API server rejects a patch
that loosens a pod's requirements, adds a gate, or pins a pod that is no longer held. A patch of a list tests the list,
and fails if the list has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Json = dict[str, Any]


def set_pairs(path: str, before: Mapping[str, str] | None, pairs: Mapping[str, str]) -> list[Json]:
    """Return the operations that add strings, such as labels, to the object at `path`; None: it does not exist yet."""
    if not pairs:
        return []
    if not before:
        return [_add(path, dict(pairs))]
    return [_add(f"{path}/{_escaped(key)}", value) for key, value in sorted(pairs.items()) if before.get(key) != value]


def set_value(path: str, before: object, after: object) -> list[Json]:
    """Return the operation that sets a field; none if the value does not change."""
    return [] if before == after else [_add(path, after)]


def remove_gates(gates: Sequence[str], removed: Iterable[str]) -> list[Json]:
    """Return the operation that sets the gates to those that remain."""
    names = set(removed)
    return [_add("/spec/schedulingGates", [{"name": name} for name in gates if name not in names])]


def append(path: str, items: Sequence[object] | None, item: object) -> list[Json]:
    """Return the operations that append to a list."""
    if not items:
        return [_add(path, [item])]
    return [{"op": "test", "path": path, "value": list(items)}, _add(f"{path}/-", item)]


def remove_item(path: str, items: Sequence[object], item: object) -> list[Json]:
    """Return the operations that remove an item from a list that contains it."""
    return [
        {"op": "test", "path": path, "value": list(items)},
        {"op": "remove", "path": f"{path}/{list(items).index(item)}"},
    ]


def _add(path: str, value: object) -> Json:
    """Return an operation that sets a member, whether or not it exists (RFC 6902 section 4.1)."""
    return {"op": "add", "path": path, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
