"""Compares renderings, to find the condition under which each field of each object is present.

A condition is a conjunction ("with gpu and without k3s") or has alternatives ("with bind or with kube-scheduler"). If
no condition explains the renderings, the components interact in a way that a chart cannot express, and the comparison
fails.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Components = frozenset[str]
Json = Any
"""Any value of a YAML document."""


class Literal(NamedTuple):
    """Whether a component is enabled."""

    component: str
    chosen: bool = True


class Condition(NamedTuple):
    """The components for which something is present: one literal of each clause must hold. No clauses: always."""

    clauses: tuple[tuple[Literal, ...], ...] = ()

    def holds(self, components: Components) -> bool:
        """Return whether a choice of components satisfies the condition."""
        return all(any((name in components) == chosen for name, chosen in clause) for clause in self.clauses)


class Template(NamedTuple):
    """A value that is taken from the chart's values."""

    text: str
    """Text of the value in a template, "{{ ... }}"; "@INDENT@" stands for the column of the value."""
    default: Any
    """The value that kustomize renders."""


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
    """A field: its values under mutually exclusive conditions."""

    key: str
    values: tuple[Guarded, ...]


def compare(renderings: dict[Components, Any], order: Sequence[str]) -> list[Guarded]:
    """Return a value that covers all renderings; `order` lists the components in the order in which they apply.

    Raises ValueError if no condition explains a difference.
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
    """Return a short condition that holds for exactly the given renderings among all.

    It is a conjunction of components that are enabled or disabled, or else a disjunction of components. Raises
    ValueError if neither explains the renderings.
    """
    absent = [names for names in every if names not in present]
    required = [name for name in order if present and all(name in names for names in present)]
    excluded = {name for names in absent for name in names}.difference(*present)
    clauses: list[tuple[Literal, ...]] = [(Literal(name),) for name in required]
    clauses += [(Literal(name, chosen=False),) for name in order if name in excluded]
    clauses.append(_one_of(present, absent, order))
    for clause in reversed(clauses.copy()):
        shorter = [literals for literals in clauses if literals != clause]
        if not any(Condition(tuple(shorter)).holds(names) for names in absent):
            clauses = shorter
    condition = Condition(tuple(clauses))
    if any(condition.holds(names) for names in absent):
        raise ValueError(f"no condition explains presence with {_names(present)} and absence with {_names(absent)}")
    return condition


def _one_of(
    present: Collection[Components], absent: Collection[Components], order: Sequence[str]
) -> tuple[Literal, ...]:
    """Return components of which each rendering in `present` has one, and as few in `absent` as possible have one."""
    names = [name for name in order if not any(name in rendering for rendering in absent)]
    if not all(any(name in rendering for name in names) for rendering in present):
        return (Literal("", chosen=False),)  # always holds
    for name in reversed(names.copy()):
        fewer = [component for component in names if component != name]
        if all(any(component in rendering for component in fewer) for rendering in present):
            names = fewer
    return tuple(Literal(name) for name in names)


def evaluate(node: Node, components: Components) -> Json:
    """Return the value for a choice of components, with the chart's default values."""
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
    """Return each distinct scalar with its condition, among all renderings."""
    distinct = {_key(value): value for value in values.values()}
    holders = {key: [names for names, value in values.items() if _key(value) == key] for key in distinct}
    return [Guarded(find_condition(holders[key], every, order), Scalar(value)) for key, value in distinct.items()]


def _below(condition: Condition, value: Guarded) -> Guarded:
    """Return a value under both conditions."""
    return Guarded(Condition(tuple(dict.fromkeys((*condition.clauses, *value.condition.clauses)))), value.node)


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
    """Insert unknown items, each before the next known one."""
    for index, key in enumerate(more):
        if key not in keys:
            following = [keys.index(known) for known in more[index:] if known in keys]
            keys.insert(min(following, default=len(keys)), key)


def _keyed(items: list[Any]) -> dict[str, Any]:
    """Return the items of a list by key: their identity, and the number of earlier items with the same identity."""
    keys = [_item_key(item) for item in items]
    return {f"{key} {keys[:index].count(key)}": item for index, (key, item) in enumerate(zip(keys, items, strict=True))}


def _item_key(item: Json) -> str:
    """Return the identity of an item in its list: a mount path, a name, or the whole item."""
    match item:
        case {"mountPath": str(text)} | {"name": str(text)}:
            return text
        case _:
            return _key(item)


def _key(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _names(sets: Collection[Components]) -> str:
    return "; ".join(",".join(sorted(names)) or "nothing" for names in sets)
