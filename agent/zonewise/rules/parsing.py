"""Reads NodeFeatureRules and NodeFeatureGroups from JSON or YAML values.

An invalid rule is returned with its error, so that the other rules of its object count. Fields that the API does not
have are ignored here, as an API server prunes them; `unknown_fields` names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from zonewise.rules.types import (
    NODE_FEATURE_GROUP,
    NODE_FEATURE_RULE,
    FeatureMatcherTerm,
    FeatureSet,
    MatchExpression,
    Rule,
    RuleError,
    RuleObject,
    Taint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zonewise.rules.types import FeatureMatcher

API_GROUP = "nfd.k8s-sigs.io"

_RULE_LISTS = {NODE_FEATURE_RULE: "rules", NODE_FEATURE_GROUP: "featureGroupRules"}
_GROUP_FIELDS = frozenset({"name", "vars", "varsTemplate", "matchFeatures", "matchAny"})
_RULE_FIELDS = _GROUP_FIELDS | {"labels", "labelsTemplate", "annotations", "taints", "extendedResources"}
_TERM_FIELDS = frozenset({"feature", "matchExpressions", "matchName"})
_EXPRESSION_FIELDS = frozenset({"op", "value", "type"})
_TAINT_FIELDS = frozenset({"key", "value", "effect", "timeAdded"})
_MAX_SHOWN = 80


def parse_object(document: object) -> RuleObject:
    """Return the object in a document. Raises RuleError if the document is not such an object."""
    fields = _mapping(document, "the document")
    kind = str(fields.get("kind"))
    if kind not in _RULE_LISTS or not str(fields.get("apiVersion", "")).startswith(f"{API_GROUP}/"):
        raise RuleError(f"kind {kind!r} of {fields.get('apiVersion')!r} is neither NodeFeatureRule nor "
                        f"NodeFeatureGroup of {API_GROUP}/v1alpha1")  # fmt: skip
    name = _object_name(_mapping(fields.get("metadata", {}), "metadata"), kind)
    where = f"spec.{_RULE_LISTS[kind]}"
    rules = _list(_mapping(fields.get("spec"), "spec").get(_RULE_LISTS[kind]), where)
    parsed = tuple(
        parse_rule(rule, f"{where}[{i}]", is_group=kind == NODE_FEATURE_GROUP) for i, rule in enumerate(rules)
    )
    return RuleObject(name, parsed, kind)


def parse_rule(document: object, where: str = "rule", *, is_group: bool = False) -> Rule:
    """Return a rule, with an error if it is invalid. Never raises."""
    name = ""
    try:
        fields = _mapping(document, where)
        name = _text(fields.get("name"), f"{where}.name")
        rule = Rule(
            name,
            vars=_texts(fields, "vars", where),
            vars_template=_optional_text(fields, "varsTemplate", where),
            match_features=_matcher(fields.get("matchFeatures"), f"{where}.matchFeatures"),
            match_any=tuple(_match_any(fields.get("matchAny"), f"{where}.matchAny")),
        )
        return rule if is_group else _with_outputs(rule, fields, where)
    except RuleError as error:
        return Rule(name or where, error=str(error))


def parse_features(document: object) -> FeatureSet:
    """Return the raw features of a NodeFeature. Raises RuleError."""
    fields = _mapping(document, "the document")
    if fields.get("kind") != "NodeFeature":
        raise RuleError(f"kind {fields.get('kind')!r} is not NodeFeature")
    features = _mapping(_mapping(fields.get("spec"), "spec").get("features") or {}, "spec.features")
    where = "spec.features"
    return FeatureSet(
        {name: frozenset(_mapping(elements, at)) for name, elements, at in _feature_elements(features, "flags")},
        {
            name: {key: _text(value, f"{at}.{key}") for key, value in _mapping(elements, at).items()}
            for name, elements, at in _feature_elements(features, "attributes")
        },
        {
            name: [_texts(_mapping(one, at), "attributes", where) for one in _list(elements, at)]
            for name, elements, at in _feature_elements(features, "instances")
        },
    )


def _object_name(metadata: Mapping[str, object], kind: str) -> str:
    name = _optional_text(metadata, "name", "metadata")
    namespace = _optional_text(metadata, "namespace", "metadata") if kind == NODE_FEATURE_GROUP else ""
    return f"{namespace}/{name}" if name and namespace else name


def _feature_elements(features: Mapping[str, object], kind: str) -> Iterator[tuple[str, object, str]]:
    empty: object = [] if kind == "instances" else {}
    for name, value in _mapping(features.get(kind) or {}, f"spec.features.{kind}").items():
        where = f"spec.features.{kind}.{name}"
        elements = _mapping(value, where).get("elements")
        yield name, empty if elements is None else elements, f"{where}.elements"


def unknown_fields(document: object) -> Iterator[str]:
    """Yield the paths of fields in an object's rules that the API does not have."""
    for kind, key in _RULE_LISTS.items():
        for rule, where in _items(_get(_get(document, "spec"), key), f"spec.{key}"):
            yield from _unknown(rule, _RULE_FIELDS if kind == NODE_FEATURE_RULE else _GROUP_FIELDS, where)
            for taint, at in _items(_get(rule, "taints"), f"{where}.taints"):
                yield from _unknown(taint, _TAINT_FIELDS, at)
            yield from _unknown_in_terms(_get(rule, "matchFeatures"), f"{where}.matchFeatures")
            for alternative, at in _items(_get(rule, "matchAny"), f"{where}.matchAny"):
                yield from _unknown(alternative, frozenset({"matchFeatures"}), at)
                yield from _unknown_in_terms(_get(alternative, "matchFeatures"), f"{at}.matchFeatures")


def _unknown_in_terms(terms: object, where: str) -> Iterator[str]:
    for term, at in _items(terms, where):
        yield from _unknown(term, _TERM_FIELDS, at)
        yield from _unknown(_get(term, "matchName"), _EXPRESSION_FIELDS, f"{at}.matchName")
        expressions = _get(term, "matchExpressions")
        if isinstance(expressions, dict):
            for name, expression in cast("dict[object, object]", expressions).items():
                yield from _unknown(expression, _EXPRESSION_FIELDS, f"{at}.matchExpressions.{name}")


def _unknown(value: object, known: frozenset[str], where: str) -> Iterator[str]:
    if isinstance(value, dict):
        names = sorted(str(name) for name in cast("dict[object, object]", value) if name not in known)
        yield from (f"{where}.{name}" for name in names)


def _items(value: object, where: str) -> Iterator[tuple[object, str]]:
    if isinstance(value, list):
        yield from ((item, f"{where}[{i}]") for i, item in enumerate(cast("list[object]", value)))


def _get(value: object, name: str) -> object:
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


def _with_outputs(rule: Rule, fields: Mapping[str, object], where: str) -> Rule:
    taints = _list(fields.get("taints") or [], f"{where}.taints")
    return rule._replace(
        labels=_texts(fields, "labels", where),
        labels_template=_optional_text(fields, "labelsTemplate", where),
        annotations=_texts(fields, "annotations", where),
        extended_resources=_texts(fields, "extendedResources", where),
        taints=tuple(_taint(taint, f"{where}.taints[{i}]") for i, taint in enumerate(taints)),
    )


def _taint(document: object, where: str) -> Taint:
    fields = _mapping(document, where)
    return Taint(*(_optional_text(fields, name, where) for name in ("key", "value", "effect")))


def _match_any(value: object, where: str) -> Iterator[FeatureMatcher]:
    for i, alternative in enumerate(_list(value or [], where)):
        fields = _mapping(alternative, f"{where}[{i}]")
        yield _matcher(fields.get("matchFeatures"), f"{where}[{i}].matchFeatures")


def _matcher(value: object, where: str) -> FeatureMatcher:
    return tuple(_term(term, f"{where}[{i}]") for i, term in enumerate(_list(value or [], where)))


def _term(document: object, where: str) -> FeatureMatcherTerm:
    fields = _mapping(document, where)
    expressions, match_name = fields.get("matchExpressions"), fields.get("matchName")
    return FeatureMatcherTerm(
        _text(fields.get("feature"), f"{where}.feature"),
        None if expressions is None else _expressions(expressions, f"{where}.matchExpressions"),
        None if match_name is None else _expression(match_name, f"{where}.matchName"),
    )


def _expressions(value: object, where: str) -> dict[str, MatchExpression]:
    return {
        name: _expression(expression, f"{where}.{name[:_MAX_SHOWN]}")
        for name, expression in _mapping(value, where).items()
    }


def _expression(document: object, where: str) -> MatchExpression:
    fields = _mapping(document, where)
    operands = _list(fields.get("value") or [], f"{where}.value")
    return MatchExpression(
        _optional_text(fields, "op", where),
        tuple(_text(operand, f"{where}.value[{i}]") for i, operand in enumerate(operands)),
        _optional_text(fields, "type", where),
    )


# --- JSON values


def _checked(kind: type, name: str) -> Callable[[object, str], object]:
    def check(value: object, where: str) -> object:
        if isinstance(value, kind):
            return value
        raise RuleError(f"{where}: must be {name}, not {_shown(value)}")

    return check


_check_text = _checked(str, "a string")
_check_list = _checked(list, "a list")
_check_mapping = _checked(dict, "a mapping")


def _text(value: object, where: str) -> str:
    return cast("str", _check_text(value, where))


def _list(value: object, where: str) -> list[object]:
    return cast("list[object]", _check_list(value, where))


def _mapping(value: object, where: str) -> dict[str, object]:
    fields = cast("dict[object, object]", _check_mapping(value, where))
    for name in fields:
        _check_text(name, f"a name in {where}")
    return cast("dict[str, object]", fields)


def _texts(fields: Mapping[str, object], name: str, where: str) -> dict[str, str]:
    entries = _mapping(fields.get(name) or {}, f"{where}.{name}")
    return {key: _text(value, f"{where}.{name}.{key[:_MAX_SHOWN]}") for key, value in entries.items()}


def _optional_text(fields: Mapping[str, object], name: str, where: str) -> str:
    value = fields.get(name)
    return "" if value is None else _text(value, f"{where}.{name}")


def _shown(value: object) -> str:
    return "absent" if value is None else f"{str(value)[:_MAX_SHOWN]!r} ({type(value).__name__})"
