"""The elements of a feature that a term matches, as NFD's pkg/apis/nfd/nodefeaturerule/expression.go decides.

A feature may have flags, attributes and instances. Flags and attributes form one set of elements: an expression may
match in either, and DoesNotExist must hold in both. Instances are separate: all expressions must match the same
instance. A match in either way is enough. If several expressions are wrong, the error is that of the first by name; NFD
reports any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.rules.operators import DOES_NOT_EXIST, matches

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zonewise.rules.types import FeatureMatcher, FeatureMatcherTerm, MatchExpression, RawFeatures

NAME, VALUE = "Name", "Value"
"""Keys of an element that is a flag or an attribute (MatchedKeyName, MatchedKeyValue)."""

Element = dict[str, str]
"""Name and Value of a flag or an attribute, or the attributes of an instance."""

MatchedFeatures = dict[str, dict[str, list[Element]]]
"""The data that a template sees: elements by domain and feature."""


class FeatureElements(NamedTuple):
    """The elements of one feature; None if the feature has none of that type."""

    flags: Collection[str] | None
    attributes: Mapping[str, str] | None
    instances: Sequence[Mapping[str, str]]


class TermMatch(NamedTuple):
    """Whether a term matches, and the elements that match."""

    matched: bool
    elements: list[Element]


_NO_MATCH = TermMatch(matched=False, elements=[])


def feature_elements(features: RawFeatures, feature: str) -> FeatureElements | None:
    """Return the elements of a feature, whose name may be in any case; None if there is no such feature."""
    name = feature.lower()
    instances = features.instances.get(name)
    found = FeatureElements(features.flags.get(name), features.attributes.get(name), instances or ())
    return None if (found.flags, found.attributes, instances) == (None, None, None) else found


def match_features(matcher: FeatureMatcher, features: RawFeatures) -> MatchedFeatures | None:
    """Return the elements that the terms match; None if one does not match. Later terms are then not evaluated.

    Raises RuleError.
    """
    result: MatchedFeatures = {}
    for term in matcher:
        match = match_term(term, features)
        if not match.matched:
            return None
        domain, dot, name = term.feature.partition(".")
        key = (domain, name) if dot else (term.feature.lower(), "")
        result.setdefault(key[0], {}).setdefault(key[1], []).extend(match.elements)
    return result


def match_term(term: FeatureMatcherTerm, features: RawFeatures) -> TermMatch:
    """Return the elements that a term matches. Raises RuleError."""
    elements = feature_elements(features, term.feature)
    if elements is None:
        return _NO_MATCH
    match = TermMatch(matched=True, elements=[])
    if term.match_expressions is not None:
        match = match_expressions(term.match_expressions, elements)
    if match.matched and term.match_name is not None:
        by_name = match_names(term.match_name, elements)
        match = TermMatch(by_name.matched, match.elements + by_name.elements)
    return match


def match_expressions(expressions: Mapping[str, MatchExpression], elements: FeatureElements) -> TermMatch:
    """Return the elements that the expressions name and match (MatchMulti). Raises RuleError."""
    in_set = _match_set(expressions, elements)
    instances = [dict(one) for one in elements.instances if _matches_instance(expressions, one)]
    return TermMatch(in_set.matched or bool(instances), in_set.elements + instances)


def match_names(expression: MatchExpression, elements: FeatureElements) -> TermMatch:
    """Return the elements whose names match, and instances with an attribute whose name matches (MatchNamesMulti).

    Raises RuleError.
    """
    found: list[Element] = [{NAME: name} for name in elements.flags or () if _matches_name(expression, name)]
    attributes = elements.attributes or {}
    found += [{NAME: name, VALUE: value} for name, value in attributes.items() if _matches_name(expression, name)]
    found.sort(key=lambda element: element[NAME])
    for instance in elements.instances:
        # all names are checked, so that an error does not depend on their order
        if sum(_matches_name(expression, name) for name in instance):
            found.append(dict(instance))
    return TermMatch(bool(found), found)


def _match_set(expressions: Mapping[str, MatchExpression], elements: FeatureElements) -> TermMatch:
    flags, attributes = elements.flags, elements.attributes
    if flags is None and attributes is None:
        return _NO_MATCH
    found: list[Element] = []
    for name, expression in sorted(expressions.items()):
        in_flags = flags is not None and matches(expression, None, present=name in flags)
        if expression.op == DOES_NOT_EXIST and flags is not None and not in_flags:
            return _NO_MATCH
        value = attributes.get(name) if attributes is not None else None
        in_attributes = attributes is not None and matches(expression, value, present=value is not None)
        if expression.op == DOES_NOT_EXIST and attributes is not None and not in_attributes:
            return _NO_MATCH
        if not in_flags and not in_attributes:
            return _NO_MATCH
        found += [{NAME: name}] if in_flags else []
        found += [{NAME: name, VALUE: value or ""}] if in_attributes else []
    return TermMatch(matched=True, elements=found)


def _matches_instance(expressions: Mapping[str, MatchExpression], instance: Mapping[str, str]) -> bool:
    return all(
        matches(expression, instance.get(name), present=name in instance)
        for name, expression in sorted(expressions.items())
    )


def _matches_name(expression: MatchExpression, name: str) -> bool:
    return matches(expression, name, present=True)
