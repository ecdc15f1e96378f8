"""Finds errors in rules without a node: parts that can never match, never be set, or are never looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.rules.operators import ANY, OPERATORS, TYPED_OPERATORS, check_constants
from zonewise.rules.parsing import parse_object, unknown_fields
from zonewise.rules.template.parser import parse_template
from zonewise.rules.types import RuleError
from zonewise.rules.validation import annotation_error, extended_resource_error, full_name, label_error, taint_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.rules.types import FeatureMatcher, MatchExpression, Rule

ERROR, WARNING = "error", "warning"

_STAND_IN = "0"
"""A value that is valid for labels and extended resources, in place of a reference."""


class LintProblem(NamedTuple):
    """A problem with a rule."""

    severity: str
    """ERROR: it has no effect, or an unintended one; WARNING: it may be intended."""
    where: str
    message: str


def lint_document(document: object) -> list[LintProblem]:
    """Return the problems of a NodeFeatureRule or NodeFeatureGroup. Never raises."""
    try:
        rule_object = parse_object(document)
    except RuleError as error:
        return [LintProblem(ERROR, "", str(error))]
    problems = [LintProblem(ERROR, path, "there is no such field") for path in unknown_fields(document)]
    if not rule_object.name:
        problems.append(LintProblem(ERROR, "metadata.name", "is missing"))
    for rule in rule_object.rules:
        problems += _lint_rule(rule)
    return problems


def _lint_rule(rule: Rule) -> Iterator[LintProblem]:
    where = f"rule {rule.name!r}"
    if rule.error:
        yield LintProblem(ERROR, where, rule.error)
        return
    if not rule.name:
        yield LintProblem(ERROR, where, "its name is empty")
    if not rule.match_features and not rule.match_any:
        yield LintProblem(WARNING, where, "has neither matchFeatures nor matchAny, so it matches every node")
    for name, matcher in (("matchFeatures", rule.match_features), *_alternatives(rule)):
        yield from _lint_matcher(f"{where}: {name}", matcher)
    for name, template in (("labelsTemplate", rule.labels_template), ("varsTemplate", rule.vars_template)):
        yield from _lint_template(f"{where}: {name}", template)
    yield from _lint_outputs(where, rule)


def _alternatives(rule: Rule) -> Iterator[tuple[str, FeatureMatcher]]:
    for i, matcher in enumerate(rule.match_any):
        yield f"matchAny[{i}]", matcher


def _lint_matcher(where: str, matcher: FeatureMatcher) -> Iterator[LintProblem]:
    for term in matcher:
        if term.feature.count(".") != 1:
            yield LintProblem(ERROR, where, f"feature {term.feature!r} is not DOMAIN.FEATURE")
        at = f"{where}: {term.feature}"
        for name, expression in sorted((term.match_expressions or {}).items()):
            yield from _lint_expression(f"{at}.{name}", expression)
        if term.match_name is not None:
            yield from _lint_expression(f"{at}: matchName", term.match_name)
            if term.match_name.op == "DoesNotExist":
                yield LintProblem(ERROR, f"{at}: matchName", "DoesNotExist never matches a name")


def _lint_expression(where: str, expression: MatchExpression) -> Iterator[LintProblem]:
    operator = expression.op
    if operator == ANY:
        yield LintProblem(ERROR, where, "op is missing: the API server rejects the rule")
        return
    if operator not in OPERATORS:
        yield LintProblem(ERROR, where, f"{operator!r} is not an operator: the operators are {', '.join(OPERATORS)}")
        return
    try:
        check_constants(expression)
    except RuleError as error:
        yield LintProblem(ERROR, where, str(error))
    if expression.type and operator not in TYPED_OPERATORS:
        yield LintProblem(WARNING, where, f"the operator {operator} ignores type")


def _lint_template(where: str, template: str) -> Iterator[LintProblem]:
    try:
        parse_template(template)
    except RuleError as error:
        yield LintProblem(ERROR, where, str(error))


def _lint_outputs(where: str, rule: Rule) -> Iterator[LintProblem]:
    for what, entries, error, is_reference in (
        ("label", rule.labels, label_error, True),
        ("annotation", rule.annotations, annotation_error, False),
        ("extended resource", rule.extended_resources, extended_resource_error, True),
    ):
        for name, value in sorted(entries.items()):
            if is_reference and value.startswith("@") and value.count(".") < 2:
                yield LintProblem(
                    ERROR, f"{where}: {what} {name}", f"{value!r} is not a reference @domain.feature.element"
                )
            checked = _STAND_IN if is_reference and value.startswith("@") else value
            if reason := error(full_name(name), checked):
                yield LintProblem(ERROR, f"{where}: {what} {name}", reason)
    for taint in rule.taints:
        if reason := taint_error(taint):
            yield LintProblem(ERROR, f"{where}: taint {taint}", reason)
