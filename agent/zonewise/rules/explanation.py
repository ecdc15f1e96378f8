"""Why a rule matches or not: each term and each expression is evaluated separately."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from zonewise.rules.evaluation import RuleRun
from zonewise.rules.matching import feature_elements, match_expressions, match_names, match_term
from zonewise.rules.types import NODE_FEATURE_GROUP, RuleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.rules.matching import FeatureElements
    from zonewise.rules.types import (
        Evaluation,
        FeatureMatcher,
        FeatureMatcherTerm,
        MatchExpression,
        RawFeatures,
        Rule,
        RuleObject,
        RuleOutcome,
    )

_MAX_SHOWN = 60
_NAMES_SHOWN = 5


class ExpressionExplanation(NamedTuple):
    """One expression of a term."""

    text: str
    """The expression as in the rule: `vendor In ["10de"]`."""
    matched: bool
    detail: str
    """The value on the node, or why the expression is invalid."""


class TermExplanation(NamedTuple):
    """One term of a matcher."""

    feature: str
    matched: bool
    detail: str
    """The elements of the feature on the node."""
    expressions: tuple[ExpressionExplanation, ...] = ()


class MatcherExplanation(NamedTuple):
    """The terms of matchFeatures, or of one element of matchAny."""

    name: str
    matched: bool
    terms: tuple[TermExplanation, ...]


class RuleExplanation(NamedTuple):
    """The outcome of a rule, with the reasons."""

    outcome: RuleOutcome
    matchers: tuple[MatcherExplanation, ...]


class Explanation(NamedTuple):
    """All rules, and the outputs that they set together."""

    rules: tuple[RuleExplanation, ...]
    evaluation: Evaluation


def explain_rules(objects: Iterable[RuleObject], features: RawFeatures) -> Explanation:
    """Return the evaluation of the objects, with the reasons. Never raises."""
    by_name = sorted(objects, key=lambda rule_object: (rule_object.kind == NODE_FEATURE_GROUP, rule_object.name))
    run = RuleRun(features)
    groups: list[str] = []
    rules: list[RuleExplanation] = []
    for rule_object in by_name:
        is_group = rule_object.kind == NODE_FEATURE_GROUP
        own_run = RuleRun(features) if is_group else run
        explained = [_explain_rule(rule_object, rule, own_run) for rule in rule_object.rules]
        if is_group and any(one.outcome.matched for one in explained):
            groups.append(rule_object.name)
        rules += explained
    return Explanation(tuple(rules), run.result()._replace(groups=tuple(groups)))


def _explain_rule(rule_object: RuleObject, rule: Rule, run: RuleRun) -> RuleExplanation:
    matchers = tuple(_matchers(rule, run.features))
    return RuleExplanation(run.evaluate_rule(rule_object, rule), matchers)


def _matchers(rule: Rule, features: RawFeatures) -> Iterator[MatcherExplanation]:
    for i, matcher in enumerate(rule.match_any):
        yield _explain_matcher(f"matchAny[{i}]", matcher, features)
    if rule.match_features:
        yield _explain_matcher("matchFeatures", rule.match_features, features)


def _explain_matcher(name: str, matcher: FeatureMatcher, features: RawFeatures) -> MatcherExplanation:
    terms = tuple(_explain_term(term, features) for term in matcher)
    return MatcherExplanation(name, all(term.matched for term in terms), terms)


def _explain_term(term: FeatureMatcherTerm, features: RawFeatures) -> TermExplanation:
    elements = feature_elements(features, term.feature)
    if elements is None:
        return TermExplanation(term.feature, matched=False, detail=_no_feature(term.feature, features))
    expressions = [
        _explain_expression(name, expression, elements)
        for name, expression in sorted((term.match_expressions or {}).items())
    ]
    if term.match_name is not None:
        expressions.append(_explain_name(term.match_name, elements))
    try:
        matched = match_term(term, features).matched
    except RuleError:
        matched = False
    return TermExplanation(term.feature, matched, _counted(elements), tuple(expressions))


def _explain_expression(name: str, expression: MatchExpression, elements: FeatureElements) -> ExpressionExplanation:
    text = f"{name} {_shown(expression)}"
    try:
        matched = match_expressions({name: expression}, elements).matched
        instances = sum(
            match_expressions(
                {name: expression}, elements._replace(flags=None, attributes=None, instances=[one])
            ).matched
            for one in elements.instances
        )
    except RuleError as error:
        return ExpressionExplanation(text, matched=False, detail=str(error))
    details = list(_in_set(name, elements))
    if elements.instances:
        values = sorted({one[name] for one in elements.instances if name in one})
        has = f", which have {_listed(values)}" if values else ", none of which has it"
        details.append(f"{instances} of {len(elements.instances)} instances match{has}")
    return ExpressionExplanation(text, matched, "; ".join(details))


def _explain_name(expression: MatchExpression, elements: FeatureElements) -> ExpressionExplanation:
    text = f"name {_shown(expression)}"
    try:
        match = match_names(expression, elements)
    except RuleError as error:
        return ExpressionExplanation(text, matched=False, detail=str(error))
    names = sorted({element.get("Name", "an instance") for element in match.elements})
    return ExpressionExplanation(text, match.matched, _listed(names) if names else "no name matches")


def _in_set(name: str, elements: FeatureElements) -> Iterator[str]:
    if elements.attributes is not None and name in elements.attributes:
        yield f"is {_text(elements.attributes[name])}"
    elif elements.flags is not None and name in elements.flags:
        yield "is present, without a value"
    elif elements.flags is not None or elements.attributes is not None:
        yield "is missing"


def _no_feature(feature: str, features: RawFeatures) -> str:
    domain = feature.lower().partition(".")[0]
    known = {*features.flags, *features.attributes, *features.instances}
    similar = sorted(name for name in known if name.partition(".")[0] == domain)
    return f"the node has no such feature; it has {', '.join(similar)}" if similar else "the node has no such feature"


def _counted(elements: FeatureElements) -> str:
    counts = (
        (elements.flags, "flag"),
        (elements.attributes, "attribute"),
        (elements.instances or None, "instance"),
    )
    parts = [f"{len(items)} {name}{'s'[: len(items) != 1]}" for items, name in counts if items is not None]
    return ", ".join(parts) or "0 instances"


def _shown(expression: MatchExpression) -> str:
    operands = f" {json.dumps(list(expression.value), ensure_ascii=False)}" if expression.value else ""
    kind = f" ({expression.type})" if expression.type else ""
    return f"{expression.op or 'any'}{operands}{kind}"


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _NAMES_SHOWN} more" if len(texts) > _NAMES_SHOWN else ""
    return ", ".join(map(_text, texts[:_NAMES_SHOWN])) + more


def _text(value: str) -> str:
    return json.dumps(value if len(value) <= _MAX_SHOWN else f"{value[: _MAX_SHOWN - 3]}...", ensure_ascii=False)
