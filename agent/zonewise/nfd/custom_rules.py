"""The rules of the worker's source "custom": those of a NodeFeatureRule, with additional short forms of expressions.

| short form | stands for |
|---|---|
| `key: text`, a number, true or false; `key: [a, b]` | `{op: In, value: [...]}` |
| `key:` without a value | `{op: Exists}` |
| `matchExpressions: [key, "key=value"]` | a map with Exists and In |
| `value: text` | `value: [text]` |

The forms are those of source/custom/api/expression.go (UnmarshalJSON). The rules set only labels and variables. As in
Go, the names of fields may be in any case, and the values of labels and variables may be numbers, true or false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from zonewise.nfd.string_fields import field_text
from zonewise.rules.parsing import parse_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.rules.types import Rule

_TEXTS = ("name", "labelsTemplate", "varsTemplate")
_MAPS = ("labels", "vars")
_RULE_FIELDS = (*_TEXTS, *_MAPS, "matchFeatures", "matchAny")
_TERM_FIELDS = ("feature", "matchExpressions", "matchName")
_ALTERNATIVE_FIELDS = ("matchFeatures",)
_EXPRESSION_FIELDS = ("op", "value", "type")
_SCALARS = (str, bool, int, float)
_MAX_SHOWN = 80


def parse_custom_rules(documents: Iterable[object]) -> tuple[Rule, ...]:
    """Return the rules; an invalid rule has its error."""
    return tuple(parse_rule(_rule(rule), f"sources.custom[{i}]") for i, rule in enumerate(documents))


def unknown_fields(documents: Iterable[object]) -> Iterator[str]:
    """Yield the positions of fields that rules do not have; those of expressions are left out, as in Go."""
    for i, rule in enumerate(documents):
        yield from _unknown(rule, _RULE_FIELDS, f"[{i}]")
        yield from _unknown_in_terms(_value(rule, "matchFeatures"), f"[{i}].matchFeatures")
        for j, alternative in enumerate(_items(_value(rule, "matchAny"))):
            where = f"[{i}].matchAny[{j}]"
            yield from _unknown(alternative, _ALTERNATIVE_FIELDS, where)
            yield from _unknown_in_terms(_value(alternative, "matchFeatures"), f"{where}.matchFeatures")


def _unknown_in_terms(terms: object, where: str) -> Iterator[str]:
    for i, term in enumerate(_items(terms)):
        yield from _unknown(term, _TERM_FIELDS, f"{where}[{i}]")


def _unknown(value: object, names: Iterable[str], where: str) -> Iterator[str]:
    known = {name.lower() for name in names}
    for name in cast("dict[object, object]", value) if isinstance(value, dict) else ():
        if str(name).lower() not in known:
            yield f"{where}.{str(name)[:_MAX_SHOWN]}"


def _value(value: object, name: str) -> object:
    return _known(cast("dict[str, Any]", value), (name,)).get(name) if isinstance(value, dict) else None


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _rule(rule: object) -> object:
    if not isinstance(rule, dict):
        return rule
    fields = {"name": "", **_known(cast("dict[str, Any]", rule), _RULE_FIELDS)}
    fields |= {name: field_text(fields[name]) for name in _TEXTS if name in fields}
    fields |= {name: _texts(fields[name]) for name in _MAPS if name in fields}
    if "matchFeatures" in fields:
        fields["matchFeatures"] = _terms(fields["matchFeatures"])
    if "matchAny" in fields:
        fields["matchAny"] = _alternatives(fields["matchAny"])
    return fields


def _known(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the known fields by their exact names."""
    exact = {name.lower(): name for name in names}
    return {exact[lower]: value for name, value in fields.items() if (lower := str(name).lower()) in exact}


def _texts(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {field_text(name): field_text(one) for name, one in cast("dict[object, object]", value).items()}


def _alternatives(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [_alternative(one) for one in cast("list[object]", value)]


def _alternative(value: object) -> object:
    if not isinstance(value, dict):
        return value
    fields = _known(cast("dict[str, Any]", value), _ALTERNATIVE_FIELDS)
    return {"matchFeatures": _terms(fields.get("matchFeatures"))}


def _terms(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [_term(term) for term in cast("list[object]", value)]


def _term(term: object) -> object:
    if not isinstance(term, dict):
        return term
    fields = _known(cast("dict[str, Any]", term), _TERM_FIELDS)
    if fields.get("matchExpressions") is not None:
        fields["matchExpressions"] = _expressions(fields["matchExpressions"])
    if fields.get("matchName") is not None:
        fields["matchName"] = _expression(fields["matchName"])
    return fields


def _expressions(value: object) -> object:
    if isinstance(value, dict):
        expressions = cast("dict[object, object]", value)
        return {
            field_text(key): {"op": "Exists"} if one is None else _expression(one) for key, one in expressions.items()
        }
    elements = cast("list[object]", value) if isinstance(value, list) else []
    texts = [element for element in elements if isinstance(element, str)]
    if not isinstance(value, list) or len(texts) < len(elements):
        return "neither a map nor a list of names"
    pairs = [text.partition("=") for text in texts]
    return {key: _in([text]) if equals else {"op": "Exists"} for key, equals, text in pairs}


def _expression(value: object) -> object:
    if isinstance(value, dict):
        fields = _known(cast("dict[str, Any]", value), _EXPRESSION_FIELDS)
        if isinstance(fields.get("value"), _SCALARS):
            fields["value"] = [field_text(fields["value"])]
        return fields
    if isinstance(value, list):
        return _in(cast("list[object]", value))
    return _in([field_text(value)]) if isinstance(value, _SCALARS) else value


def _in(values: list[Any]) -> dict[str, object]:
    return {"op": "In", "value": values}
