"""The rules of the worker's source "custom": those of a NodeFeatureRule, with additional short forms of expressions.

| short form | stands for |
|---|---|
| `key: text`, a number, true or false; `key: [a, b]` | `{op: In, value: [...]}` |
| `key:` without a value | `{op: Exists}` |
| `matchExpressions: [key, "key=value"]` | a map with Exists and In |
| `value: text` | `value: [text]` |

The forms are those of source/custom/api/expression.go (UnmarshalJSON). The rules set only labels and variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from zonewise.rules.parsing import parse_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.rules.types import Rule


def parse_custom_rules(documents: Iterable[object]) -> tuple[Rule, ...]:
    """Return the rules; an invalid rule has its error."""
    return tuple(parse_rule(_rule(rule), f"sources.custom[{i}]") for i, rule in enumerate(documents))


def _rule(rule: object) -> object:
    if not isinstance(rule, dict):
        return rule
    fields = cast("dict[str, Any]", rule)
    known = {
        name: fields[name] for name in ("name", "labels", "labelsTemplate", "vars", "varsTemplate") if name in fields
    }
    if "matchFeatures" in fields:
        known["matchFeatures"] = _terms(fields["matchFeatures"])
    if "matchAny" in fields:
        known["matchAny"] = _alternatives(fields["matchAny"])
    return known


def _alternatives(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [_alternative(one) for one in cast("list[object]", value)]


def _alternative(value: object) -> object:
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {**fields, "matchFeatures": _terms(fields.get("matchFeatures"))}


def _terms(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [_term(term) for term in cast("list[object]", value)]


def _term(term: object) -> object:
    if not isinstance(term, dict):
        return term
    fields = dict(cast("dict[str, Any]", term))
    if fields.get("matchExpressions") is not None:
        fields["matchExpressions"] = _expressions(fields["matchExpressions"])
    if fields.get("matchName") is not None:
        fields["matchName"] = _expression(fields["matchName"])
    return fields


def _expressions(value: object) -> object:
    if isinstance(value, dict):
        expressions = cast("dict[str, object]", value)
        return {key: {"op": "Exists"} if one is None else _expression(one) for key, one in expressions.items()}
    elements = cast("list[object]", value) if isinstance(value, list) else []
    texts = [element for element in elements if isinstance(element, str)]
    if not isinstance(value, list) or len(texts) < len(elements):
        return "neither a map nor a list of names"
    pairs = [text.partition("=") for text in texts]
    return {key: _in([text]) if equals else {"op": "Exists"} for key, equals, text in pairs}


def _expression(value: object) -> object:
    if isinstance(value, dict):
        fields = dict(cast("dict[str, Any]", value))
        if isinstance(fields.get("value"), (str, bool, int, float)):
            fields["value"] = [_text(fields["value"])]
        return fields
    if isinstance(value, list):
        return _in(cast("list[object]", value))
    return _in([_text(value)]) if isinstance(value, (str, bool, int, float)) else value


def _in(values: list[Any]) -> dict[str, object]:
    return {"op": "In", "value": values}


def _text(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
