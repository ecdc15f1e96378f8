"""JSON Patch (RFC 6902) with JSON pointers (RFC 6901): a list of operations that succeed together or not at all.

As in kube-apiserver's library (gopkg.in/evanphx/json-patch.v4), but contrary to the RFC, a missing key of an object
reads as null. It can be replaced, copied and tested, but not removed.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import is_list, is_object

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object, Value

MAX_OPERATIONS = 10_000
"""The limit of kube-apiserver (k8s.io/apiserver/pkg/endpoints/handlers/patch.go, maxJSONPatchOperations)."""

_ABSENT = object()


class JsonPatchError(ValueError):
    """An operation that cannot be applied: an absent path, a failed test, an unknown operation."""


def json_patch(target: Value, operations: list[Value]) -> Value:
    """Return the target with all operations applied; neither argument is changed. Raises JsonPatchError."""
    if len(operations) > MAX_OPERATIONS:
        raise JsonPatchError(f"{len(operations)} operations are too many: {MAX_OPERATIONS} at most")
    result = copy.deepcopy(target)
    for operation in operations:
        result = _applied(result, operation)
    return result


def equal(left: Value, right: Value) -> bool:
    """Return whether two JSON values are equal: true differs from 1, but 1 equals 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(equal(left[name], right[name]) for name in left)
    if is_list(left) and is_list(right):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right


def _applied(target: Value, operation: Value) -> Value:
    if not is_object(operation) or not isinstance(operation.get("path"), str):
        raise JsonPatchError(f"no operation: {operation!r}")
    name, path = operation.get("op"), _pointer(operation["path"])
    if name == "remove":
        return _removed(target, path)
    if name in {"move", "copy"}:
        return _moved(target, operation, path)
    if name not in {"add", "replace", "test"}:
        raise JsonPatchError(f"unknown operation {name!r}")
    if "value" not in operation:
        raise JsonPatchError(f"{name} {operation['path']!r} has no value")
    value = operation["value"]
    if name == "test":
        if not equal(_at(target, path), value):
            raise JsonPatchError(f"test failed: {operation['path']!r}")
        return target
    if name == "replace":
        _at(target, path)
        return _set(target, path, copy.deepcopy(value))
    return _added(target, path, copy.deepcopy(value))


def _moved(target: Value, operation: Object, path: list[str]) -> Value:
    if not isinstance(operation.get("from"), str):
        raise JsonPatchError(f"{operation['op']} {operation['path']!r} has no from")
    source = _pointer(operation["from"])
    value = copy.deepcopy(_at(target, source))
    if operation["op"] == "copy":
        return _added(target, path, value)
    if path[: len(source)] == source and len(path) > len(source):
        raise JsonPatchError("a value cannot be moved into itself")
    return _added(_removed(target, source), path, value)


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise JsonPatchError(f"no JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(target: Value, path: list[str]) -> Value:
    if not path:
        return target
    parent = _inner(target, path[:-1])
    return parent.get(path[-1]) if is_object(parent) else _child(parent, path[-1])


def _inner(target: Value, path: list[str]) -> Value:
    for part in path:
        target = _child(target, part)
    return target


def _child(parent: Value, part: str) -> Value:
    if is_object(parent):
        value = parent.get(part, _ABSENT)
        if value is not _ABSENT:
            return value
    elif is_list(parent):
        return parent[_index(part, len(parent) - 1)]
    raise JsonPatchError(f"there is no {part!r}")


def _index(part: str, last: int) -> int:
    if not part.isascii() or not part.isdigit() or (len(part) > 1 and part[0] == "0") or int(part) > last:
        raise JsonPatchError(f"there is no item {part!r}")
    return int(part)


def _added(target: Value, path: list[str], value: Value) -> Value:
    if not path:
        return value
    parent = _inner(target, path[:-1])
    if is_list(parent):
        parent.insert(len(parent) if path[-1] == "-" else _index(path[-1], len(parent)), value)
        return target
    return _set(target, path, value)


def _set(target: Value, path: list[str], value: Value) -> Value:
    if not path:
        return value
    parent = _inner(target, path[:-1])
    if is_object(parent):
        parent[path[-1]] = value
    elif is_list(parent):
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        raise JsonPatchError(f"{path[-1]!r} has no parent to be in")
    return target


def _removed(target: Value, path: list[str]) -> Value:
    if not path:
        raise JsonPatchError("the whole document cannot be removed")
    parent = _inner(target, path[:-1])
    _child(parent, path[-1])
    if is_object(parent):
        del parent[path[-1]]
    else:
        del parent[int(path[-1])]
    return target
