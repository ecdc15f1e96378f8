"""Compares renderings: which field of which object is present under which condition.

A condition is a conjunction: "with gpu and without k3s". Where no conjunction explains the renderings, the components
interact in a way that a chart cannot have, and the comparison fails.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Components = frozenset[str]
Json = Any
"""A value of a YAML document."""


class Condition(NamedTuple):
    """Under which components something is present; without both: always."""

    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def holds(self, components: Components) -> bool:
        """Return whether a choice of components fulfils it."""
        return components.issuperset(self.present) and components.isdisjoint(self.absent)


class Template(NamedTuple):
    """A value that the chart takes from its values."""

    text: str
    """What stands for it in a template, "{{ ... }}"; "@INDENT@" is the column of the value."""
    default: Any
    """What kustomize has."""


class Scalar(NamedTuple):
    """One value: a string, a number, a Template."""

    value: Any


class Mapping(NamedTuple):
    """The fields of an object."""

    fields: tuple[Field, ...]


class Items(NamedTuple):
    """The items of a list."""

    items: tuple[Guarded, ...]


Node = Scalar | Mapping | Items


class Guarded(NamedTuple):
    """A value under a condition."""

    condition: Condition
    node: Node


class Field(NamedTuple):
    """A field: its values under conditions that exclude each other."""

    key: str
    values: tuple[Guarded, ...]


def compare(renderings: dict[Components, Any], order: Sequence[str]) -> list[Guarded]:
    """Return a value as it is in all renderings; order: the components in the order in which they apply.

    Raises ValueError where no conjunction of components explains a difference.
    """
    values = list(renderings.values())
    if all(isinstance(value, dict) for value in values):
        return [Guarded(Condition(), _compare_mappings(renderings, order))]
    if all(isinstance(value, list) for value in values):
        return [Guarded(Condition(), _compare_lists(renderings, order))]
    if any(isinstance(value, dict | list) for value in values):
        raise ValueError(f"a value is now a list or an object, now another thing: {_names(renderings)}")
    return _alternatives(renderings, renderings, order)


def find_condition(present: Collection[Components], every: Collection[Components], order: Sequence[str]) -> Condition:
    """Return the shortest conjunction that holds for some of all renderings, and for no other.

    Raises ValueError where there is none.
    """
    absent = [names for names in every if names not in present]
    required = {name for names in present for name in names if all(name in other for other in present)}
    excluded = {name for names in absent for name in names}.difference(*present)
    literals = [(name, True) for name in order if name in required] + [
        (name, False) for name in order if name in excluded
    ]
    for literal in reversed(literals.copy()):
        shorter = [other for other in literals if other != literal]
        if not any(_condition(shorter).holds(names) for names in absent):
            literals = shorter
    condition = _condition(literals)
    if any(condition.holds(names) for names in absent):
        raise ValueError(f"no condition explains presence with {_names(present)} and absence with {_names(absent)}")
    return condition


def evaluate(node: Node, components: Components) -> Json:
    """Return the value for a choice of components, with the defaults of the chart's values."""
    match node:
        case Scalar(value=Template(default=default)):
            return default
        case Scalar(value=value):
            return value
        case Items(items=items):
            return [evaluate(item.node, components) for item in items if item.condition.holds(components)]
        case Mapping(fields=fields):
            return {
                field.key: evaluate(value.node, components)
                for field in fields
                for value in field.values
                if value.condition.holds(components)
            }


def _compare_mappings(renderings: dict[Components, dict[str, Any]], order: Sequence[str]) -> Mapping:
    keys = dict.fromkeys(key for value in renderings.values() for key in value)
    return Mapping(tuple(_field(key, renderings, order) for key in keys))


def _field(key: str, renderings: dict[Components, dict[str, Any]], order: Sequence[str]) -> Field:
    holders = {names: value[key] for names, value in renderings.items() if key in value}
    if not any(isinstance(value, dict | list) for value in holders.values()):
        return Field(key, tuple(_alternatives(holders, renderings, order)))
    condition = find_condition(holders, renderings, order)
    return Field(key, tuple(_below(condition, value) for value in compare(holders, order)))


def _alternatives(values: dict[Components, Any], every: Collection[Components], order: Sequence[str]) -> list[Guarded]:
    """Return each distinct scalar under its condition among all renderings."""
    distinct = {_key(value): value for value in values.values()}
    holders = {key: [names for names, value in values.items() if _key(value) == key] for key in distinct}
    return [Guarded(find_condition(holders[key], every, order), Scalar(value)) for key, value in distinct.items()]


def _below(condition: Condition, value: Guarded) -> Guarded:
    """Return a value under both conditions."""
    present = dict.fromkeys((*condition.present, *value.condition.present))
    absent = dict.fromkeys((*condition.absent, *value.condition.absent))
    return Guarded(Condition(tuple(present), tuple(absent)), value.node)


def _compare_lists(renderings: dict[Components, list[Any]], order: Sequence[str]) -> Items:
    keyed = {names: _keyed(value) for names, value in renderings.items()}
    keys: list[str] = []
    for value in keyed.values():
        _insert(keys, [*value])
    items: list[Guarded] = []
    for key in keys:
        holders = {names: value[key] for names, value in keyed.items() if key in value}
        condition = find_condition(holders, renderings, order)
        items += [_below(condition, item) for item in compare(holders, order)]
    return Items(tuple(items))


def _insert(keys: list[str], more: list[str]) -> None:
    """Insert unknown items, each before the next one that is known."""
    for index, key in enumerate(more):
        if key not in keys:
            following = [keys.index(other) for other in more[index:] if other in keys]
            keys.insert(min(following, default=len(keys)), key)


def _keyed(items: list[Any]) -> dict[str, Any]:
    """Return the items of a list by what identifies them, and the number of times that it came before."""
    keys = [_item_key(item) for item in items]
    return {f"{key} {keys[:index].count(key)}": item for index, (key, item) in enumerate(zip(keys, items, strict=True))}


def _item_key(item: Json) -> str:
    """Return what identifies an item in its list: a mount path, a name, or all of it."""
    match item:
        case {"mountPath": str(text)} | {"name": str(text)}:
            return text
        case _:
            return _key(item)


def _key(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _condition(literals: list[tuple[str, bool]]) -> Condition:
    return Condition(
        tuple(name for name, present in literals if present), tuple(name for name, present in literals if not present)
    )


def _names(sets: Collection[Components]) -> str:
    return "; ".join(",".join(sorted(names)) or "nothing" for names in sets)
