"""Sets of fields, as in metadata.managedFields (FieldsV1).

A field is a path of elements in the notation of FieldsV1:

- f:name for a field
- k:{"name":"x"} for an item by its keys
- v:"x" for a value of a set

The algorithms are those of sigs.k8s.io/structured-merge-diff (typed/tofieldset.go, compare.go, merge.go, remove.go), on
plain sets of paths.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.json_values import Object, Value, is_list, is_object
from zonewise_sandbox.apiserver.patches.json_patch import equal

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.patches.shapes import ItemRule, Shape

Path = tuple[str, ...]
Fields = frozenset[Path]
Tree = Object

NO_FIELDS: Fields = frozenset()


class ShapeError(ValueError):
    """A value that breaks its type: a list with a duplicate item, or an item without its key."""


class Changes(NamedTuple):
    """The fields that differ between two states of an object."""

    added: Fields
    modified: Fields
    removed: Fields


def from_tree(tree: Tree) -> Fields:
    """Return the set for a FieldsV1 tree."""
    paths: set[Path] = set()
    _collect(tree, (), paths)
    return frozenset(paths)


def _collect(tree: Tree, path: Path, paths: set[Path]) -> None:
    for element, below in tree.items():
        if element == ".":
            paths.add(path)
        elif below:
            _collect(below, (*path, element), paths)
        else:
            paths.add((*path, element))


def to_tree(fields: Fields) -> Tree:
    """Return a set as a FieldsV1 tree."""
    tree: Tree = {}
    for path in sorted(fields):
        subtree = tree
        for element in path:
            subtree = subtree.setdefault(element, {})
        subtree["."] = {}
    _shorten_leaves(tree)
    return tree


def _shorten_leaves(tree: Tree) -> None:
    for element, below in tree.items():
        if below.keys() == {"."}:
            tree[element] = {}
        else:
            _shorten_leaves(below)


def path_text(path: Path) -> str:
    """Return a path in the notation of conflict messages: .spec.containers[name="x"].image."""
    text = ""
    for element in path:
        kind, rest = element[0], element[2:]
        if kind == "f":
            text += f".{rest}"
        elif kind == "v":
            text += f"[={rest}]"
        else:
            keys = json.loads(rest)
            text += "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in keys.items()) + "]"
    return text


def to_field_set(value: Value, shape: Shape) -> Fields:
    """Return the fields that an applied object sets. Raises ShapeError."""
    paths: set[Path] = set()
    _add_fields(value, shape, (), paths)
    return frozenset(paths)


def _add_fields(value: Value, shape: Shape, path: Path, paths: set[Path]) -> None:
    if is_object(value) and not shape.atomic:
        for name, part in value.items():
            below, declared = shape.field(name)
            field_path = (*path, f"f:{name}")
            _add_fields(part, below, field_path, paths)
            if part is None or part == {} or not declared:
                paths.add(field_path)
        return
    if is_list(value):
        item_shape, rule = shape.items()
        if not rule.atomic:
            for element, item in items_by_element(value, item_shape, rule, path).items():
                paths.add((*path, element))
                _add_fields(item, item_shape, (*path, element), paths)
            return
    if path:
        paths.add(path)


def items_by_element(items: list[Value] | None, shape: Shape, rule: ItemRule, path: Path = ()) -> Object:
    """Return the items of a list by their path elements. Raises ShapeError."""
    items_by_key: Object = {}
    for number, item in enumerate(items or ()):
        try:
            element = rule.element(item, shape)
        except (KeyError, TypeError) as error:
            missing = f"associative list with keys has an element that omits key field {error}"
            raise ShapeError(f"{path_text(path)}: element {number}: {missing}") from None
        if element in items_by_key:
            raise ShapeError(f"{path_text(path)}: duplicate entries for key {path_text((element,))}")
        items_by_key[element] = item
    return items_by_key


def compare(old: Value, new: Value, shape: Shape) -> Changes:
    """Return the fields that differ between two states."""
    added: set[Path] = set()
    modified: set[Path] = set()
    removed: set[Path] = set()
    _compare(old, new, shape, (), (added, modified, removed))
    return Changes(frozenset(added), frozenset(modified), frozenset(removed))


_ABSENT = object()
_PathSets = tuple[set[Path], set[Path], set[Path]]


def _compare(old: Value, new: Value, shape: Shape, path: Path, path_sets: _PathSets) -> None:
    if old is new:
        return
    added, modified, removed = path_sets
    pairs = _pairs(old, new, shape, path)
    if pairs is None:
        if old is not _ABSENT and new is not _ABSENT and not equal(old, new):
            modified.add(path)
    else:
        for element, below, before, after in pairs:
            _compare(before, after, below, (*path, element), path_sets)
    if old is _ABSENT:
        added.add(path)
    elif new is _ABSENT:
        removed.add(path)


def _pairs(old: Value, new: Value, shape: Shape, path: Path) -> list[tuple[str, Shape, Value, Value]] | None:
    """Return the parts of two values by path element; None if the values are compared as a whole."""
    first = new if old is _ABSENT else old
    second = old if new is _ABSENT else new
    both = [value for value in (first, second) if value is not _ABSENT]
    if not any(both):  # empty values are leaves, so they differ from absent ones
        return None
    if all(is_object(value) for value in both) and not shape.atomic:
        return [
            (f"f:{name}", shape.field(name)[0], _part(old, name), _part(new, name))
            for name in dict.fromkeys(name for value in both for name in value)
        ]
    if all(is_list(value) for value in both):
        items, rule = shape.items()
        if not rule.atomic:
            return _item_pairs(old, new, items, rule, path)
    return None


def _item_pairs(
    old: Value, new: Value, shape: Shape, rule: ItemRule, path: Path
) -> list[tuple[str, Shape, Value, Value]]:
    before = items_by_element(old, shape, rule, path) if is_list(old) else {}
    after = items_by_element(new, shape, rule, path) if is_list(new) else {}
    return [
        (element, shape, before.get(element, _ABSENT), after.get(element, _ABSENT))
        for element in dict.fromkeys((*before, *after))
    ]


def _part(value: Value, name: str) -> Value:
    return value.get(name, _ABSENT) if is_object(value) else _ABSENT


def merge(live: Value, applied: Value, shape: Shape) -> Value:
    """Return the live value merged with the applied one: applied values take precedence, and nothing is removed."""
    if is_object(live) and is_object(applied) and not shape.atomic:
        merged = dict(live)
        for name, part in applied.items():
            merged[name] = merge(live[name], part, shape.field(name)[0]) if name in live else part
        return merged
    if is_list(live) and is_list(applied):
        items, rule = shape.items()
        if not rule.atomic:
            return _merged_items(live, applied, items, rule)
    return applied


def _merged_items(live: list[Value], applied: list[Value], shape: Shape, rule: ItemRule) -> list[Value]:
    before, after = items_by_element(live, shape, rule), items_by_element(applied, shape, rule)
    merged = {key: merge(before[key], item, shape) if key in before else item for key, item in after.items()}
    return [merged[key] if key in merged else before[key] for key in merged_order(list(before), list(after))]


def merged_order(before: list[str], after: list[str]) -> list[str]:
    """Return the order of a merged list: applied items in the applied order, others near their old positions.

    Both lists are traversed in parallel. An old item that is not applied is appended when it is reached. An old item
    that is applied is skipped unless it is the next item that is in both lists (merge.go, visitListItems).
    """
    left, right, applied = deque(before), deque(after), set(after)
    shared = deque(key for key in after if key in set(before))
    order: list[str] = []
    while left or right:
        if left and left[0] not in applied:
            order.append(left.popleft())
        elif not right or (left and left[0] != right[0] and shared and shared[0] != left[0]):
            left.popleft()
        else:
            key = right.popleft()
            order.append(key)
            if shared and shared[0] == key:
                shared.popleft()
            if left and left[0] == key:
                left.popleft()
    return order


def remove_fields(value: Value, fields: Fields, shape: Shape) -> Value:
    """Return the value without the given fields."""
    return _without(value, to_tree(fields), shape)


def _without(value: Value, tree: Tree, shape: Shape) -> Value:
    if is_object(value) and not shape.atomic:
        remaining: Object = {}
        for name, part in value.items():
            below = tree.get(f"f:{name}")
            if below is None:
                remaining[name] = part
            elif below and "." not in below:
                rest = _without(part, below, shape.field(name)[0])
                if rest or not part:  # an object that became empty is removed; one that was empty remains
                    remaining[name] = rest
        return remaining
    if is_list(value):
        items, rule = shape.items()
        if not rule.atomic:
            return _items_without(value, tree, items, rule)
    return value


def _items_without(value: list[Value], tree: Tree, shape: Shape, rule: ItemRule) -> list[Value]:
    remaining: list[Value] = []
    for item in value:
        below = tree.get(rule.element(item, shape))
        if below is None:
            remaining.append(item)
        elif below and "." not in below:
            remaining.append(_without(item, below, shape))
    return remaining


def with_declared(fields: Fields, shape: Shape) -> Fields:
    """Return the set plus every declared field that has a member below it."""
    declared_fields = set(fields)
    for path in fields:
        position = shape
        for depth, element in enumerate(path[:-1], 1):
            if element.startswith("f:"):
                position, declared = position.field(element[2:])
                if declared:
                    declared_fields.add(path[:depth])
            else:
                position = position.items()[0]
    return frozenset(declared_fields)


def fields_below(fields: Fields, prefixes: tuple[Path, ...]) -> Fields:
    """Return those fields that are at or below one of the prefixes."""
    return frozenset(path for path in fields if any(path[: len(prefix)] == prefix for prefix in prefixes))
