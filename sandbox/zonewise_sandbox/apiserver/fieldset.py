"""Sets of fields: who owns what of an object, as metadata.managedFields says it (FieldsV1).

A field is a path of elements as FieldsV1 writes them: f:name for a field, k:{"name":"x"} for an item by its keys,
v:"x" for a value of a set. The algorithms are those of sigs.k8s.io/structured-merge-diff (typed/tofieldset.go,
compare.go, merge.go, remove.go), on plain sets of paths.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.json_patch import equal
from zonewise_sandbox.apiserver.json_values import Object, Value, is_list, is_object

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.shapes import ItemRule, Shape

Path = tuple[str, ...]
Fields = frozenset[Path]
Tree = Object

NO_FIELDS: Fields = frozenset()


class ShapeError(ValueError):
    """A value that does not fit its type: a list with an item twice, an item without its key."""


class Changes(NamedTuple):
    """What differs between two states of an object."""

    added: Fields
    modified: Fields
    removed: Fields


def from_tree(tree: Tree) -> Fields:
    """Return the set that a FieldsV1 says."""
    found: set[Path] = set()
    _collect(tree, (), found)
    return frozenset(found)


def _collect(tree: Tree, path: Path, found: set[Path]) -> None:
    for element, below in tree.items():
        if element == ".":
            found.add(path)
        elif below:
            _collect(below, (*path, element), found)
        else:
            found.add((*path, element))


def to_tree(fields: Fields) -> Tree:
    """Return a set as FieldsV1."""
    tree: Tree = {}
    for path in sorted(fields):
        place = tree
        for element in path:
            place = place.setdefault(element, {})
        place["."] = {}
    _drop_dots_of_leaves(tree)
    return tree


def _drop_dots_of_leaves(tree: Tree) -> None:
    for element, below in tree.items():
        if below.keys() == {"."}:
            tree[element] = {}
        else:
            _drop_dots_of_leaves(below)


def path_text(path: Path) -> str:
    """Return a path as conflicts tell it: .spec.containers[name="x"].image."""
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
    found: set[Path] = set()
    _add_fields(value, shape, (), found)
    return frozenset(found)


def _add_fields(value: Value, shape: Shape, path: Path, found: set[Path]) -> None:
    if is_object(value) and not shape.atomic:
        for name, part in value.items():
            below, declared = shape.field(name)
            here = (*path, f"f:{name}")
            _add_fields(part, below, here, found)
            if part is None or part == {} or not declared:
                found.add(here)
        return
    if is_list(value):
        item_shape, rule = shape.items()
        if not rule.atomic:
            for element, item in items_by_element(value, item_shape, rule, path).items():
                found.add((*path, element))
                _add_fields(item, item_shape, (*path, element), found)
            return
    if path:
        found.add(path)


def items_by_element(items: list[Value] | None, shape: Shape, rule: ItemRule, path: Path = ()) -> Object:
    """Return the items of a list by their path elements. Raises ShapeError."""
    found: Object = {}
    for number, item in enumerate(items or ()):
        try:
            element = rule.element(item, shape)
        except (KeyError, TypeError) as error:
            missing = f"associative list with keys has an element that omits key field {error}"
            raise ShapeError(f"{path_text(path)}: element {number}: {missing}") from None
        if element in found:
            raise ShapeError(f"{path_text(path)}: duplicate entries for key {path_text((element,))}")
        found[element] = item
    return found


def compare(old: Value, new: Value, shape: Shape) -> Changes:
    """Return what differs between two states."""
    added: set[Path] = set()
    modified: set[Path] = set()
    removed: set[Path] = set()
    _compare(old, new, shape, (), (added, modified, removed))
    return Changes(frozenset(added), frozenset(modified), frozenset(removed))


_ABSENT = object()
_Found = tuple[set[Path], set[Path], set[Path]]


def _compare(old: Value, new: Value, shape: Shape, path: Path, found: _Found) -> None:
    if old is new:
        return
    added, modified, removed = found
    pairs = _pairs(old, new, shape, path)
    if pairs is None:
        if old is not _ABSENT and new is not _ABSENT and not equal(old, new):
            modified.add(path)
    else:
        for element, below, before, after in pairs:
            _compare(before, after, below, (*path, element), found)
    if old is _ABSENT:
        added.add(path)
    elif new is _ABSENT:
        removed.add(path)


def _pairs(old: Value, new: Value, shape: Shape, path: Path) -> list[tuple[str, Shape, Value, Value]] | None:
    """Return the parts of two values by path element; None where they are compared as a whole."""
    one = new if old is _ABSENT else old
    other = old if new is _ABSENT else new
    both = [value for value in (one, other) if value is not _ABSENT]
    if not any(both):  # empty ones are leaves: that keeps apart what is empty from what is absent
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
    """Return the live value with the applied one merged in: what is applied wins, nothing is taken away."""
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
    """Return the order of a merged list: what is applied in the order applied, the others about where they stood.

    Both lists are walked at once. An old item that is not applied is taken as soon as it is met; one that is applied is
    passed over unless it is the next of those in both lists (merge.go, visitListItems).
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
        kept: Object = {}
        for name, part in value.items():
            below = tree.get(f"f:{name}")
            if below is None:
                kept[name] = part
            elif below and "." not in below:
                left = _without(part, below, shape.field(name)[0])
                if left or not part:  # what is emptied goes, what was empty stays
                    kept[name] = left
        return kept
    if is_list(value):
        items, rule = shape.items()
        if not rule.atomic:
            return _items_without(value, tree, items, rule)
    return value


def _items_without(value: list[Value], tree: Tree, shape: Shape, rule: ItemRule) -> list[Value]:
    kept: list[Value] = []
    for item in value:
        below = tree.get(rule.element(item, shape))
        if below is None:
            kept.append(item)
        elif below and "." not in below:
            kept.append(_without(item, below, shape))
    return kept


def with_declared(fields: Fields, shape: Shape) -> Fields:
    """Return the set together with every declared field that has a member below it."""
    found = set(fields)
    for path in fields:
        at = shape
        for depth, element in enumerate(path[:-1], 1):
            if element.startswith("f:"):
                at, declared = at.field(element[2:])
                if declared:
                    found.add(path[:depth])
            else:
                at = at.items()[0]
    return frozenset(found)


def fields_below(fields: Fields, prefixes: tuple[Path, ...]) -> Fields:
    """Return those fields that lie at or below one of the prefixes."""
    return frozenset(path for path in fields if any(path[: len(prefix)] == prefix for prefix in prefixes))
