"""Evaluates rules over a node's raw features, as do NFD's pkg/apis/nfd/nodefeaturerule/rule.go and its master.

1. NodeFeatureRules are evaluated in the order of their names, and the rules of each in their own order.
2. Labels (as written) and variables of a rule are attributes of the feature `rule.matched` for later rules. That
   feature exists from the second rule on. A failed rule does not change it.
3. Of two rules that set the same name, the later one wins. A template's entries are overridden by the rule's own.
4. A value "@domain.feature.element" of a label or an extended resource is replaced by that attribute at the end.
5. A rule that fails, or an output that may not be set, does not affect the others. A defect fails only its rule.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise.rules.label_policy import DEFAULT_POLICY
from zonewise.rules.matching import match_features
from zonewise.rules.template.execution import expand_map
from zonewise.rules.types import (
    NODE_FEATURE_GROUP,
    Evaluation,
    FeatureSet,
    Rejection,
    RuleError,
    RuleOutcome,
    RuleOutput,
)
from zonewise.rules.validation import annotation_error, extended_resource_error, full_name, taint_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise.rules.label_policy import LabelPolicy
    from zonewise.rules.matching import MatchedFeatures
    from zonewise.rules.types import RawFeatures, Rule, RuleObject, Taint

log = logging.getLogger(__name__)

MATCHED = "rule.matched"
"""The feature with labels and variables that earlier rules set."""

_NO_OUTPUT = RuleOutput()


def evaluate(objects: Iterable[RuleObject], features: RawFeatures, policy: LabelPolicy = DEFAULT_POLICY) -> Evaluation:
    """Return the outputs of the rules for the features. Never raises."""
    by_name = sorted(objects, key=lambda rule_object: rule_object.name)
    groups = [rule_object for rule_object in by_name if rule_object.kind == NODE_FEATURE_GROUP]
    run = RuleRun(features, policy)
    for rule_object in by_name:
        if rule_object.kind != NODE_FEATURE_GROUP:
            run.evaluate_object(rule_object)
    memberships = {group.name: _group_run(group, features) for group in groups}
    evaluation = run.result()
    return evaluation._replace(
        outcomes=evaluation.outcomes + tuple(outcome for group in memberships.values() for outcome in group.outcomes),
        groups=tuple(name for name, group in memberships.items() if any(outcome.matched for outcome in group.outcomes)),
    )


def evaluate_rule(rule: Rule, features: RawFeatures) -> RuleOutput:
    """Return the outputs of a rule. Raises RuleError, for a defect as well: one rule must not end all publishing."""
    try:
        return _rule_output(rule, features)
    except RuleError:
        raise
    except Exception as error:
        log.exception("the rule %r failed because of a defect", rule.name[:100])
        raise RuleError(f"a defect: {type(error).__name__}: {error}") from error


def _rule_output(rule: Rule, features: RawFeatures) -> RuleOutput:
    if rule.error:
        raise RuleError(rule.error)
    labels: dict[str, str] = {}
    variables: dict[str, str] = {}
    if rule.match_any and not _expand_any(rule, features, labels, variables):
        return _NO_OUTPUT
    if rule.match_features:
        matched = match_features(rule.match_features, features)
        if matched is None:
            return _NO_OUTPUT
        _expand(rule, matched, labels, variables)
    return RuleOutput(
        matched=True,
        labels={**labels, **rule.labels},
        annotations=rule.annotations,
        extended_resources=rule.extended_resources,
        taints=rule.taints,
        vars={**variables, **rule.vars},
    )


def resolve_reference(value: str, attributes: Mapping[str, Mapping[str, str]]) -> str:
    """Return a value, or the attribute that it references by @domain.feature.element. Raises RuleError."""
    if not value.startswith("@"):
        return value
    domain, _, rest = value[1:].partition(".")
    feature, dot, element = rest.partition(".")
    if not dot:
        raise RuleError(f"{value[:100]!r} is not a reference @domain.feature.element")
    name = f"{domain}.{feature}"
    if name not in attributes:
        raise RuleError(f"{value[:100]!r}: there are no attributes {name}")
    if element not in attributes[name]:
        raise RuleError(f"{value[:100]!r}: {name} has no attribute {element}")
    return attributes[name][element]


def _expand_any(rule: Rule, features: RawFeatures, labels: dict[str, str], variables: dict[str, str]) -> bool:
    """Expand the templates for each alternative that matches; without templates, look only for the first one."""
    any_matched = False
    for matcher in rule.match_any:
        matched = match_features(matcher, features)
        if matched is None:
            continue
        any_matched = True
        if not rule.labels_template and not rule.vars_template:
            break
        _expand(rule, matched, labels, variables)
    return any_matched


def _expand(rule: Rule, matched: MatchedFeatures, labels: dict[str, str], variables: dict[str, str]) -> None:
    if rule.labels_template:
        labels.update(expand_map(rule.labels_template, matched))
    if rule.vars_template:
        variables.update(expand_map(rule.vars_template, matched))


def _group_run(group: RuleObject, features: RawFeatures) -> RuleRun:
    run = RuleRun(features)
    run.evaluate_object(group)
    return run


class RuleRun:
    """One evaluation: the features with those that earlier rules added, and the outputs so far."""

    def __init__(self, features: RawFeatures, policy: LabelPolicy = DEFAULT_POLICY) -> None:
        self._policy = policy
        self._attributes = dict(features.attributes)
        self._features = FeatureSet(features.flags, self._attributes, features.instances)
        self._labels: dict[str, str] = {}
        self._annotations: dict[str, str] = {}
        self._resources: dict[str, str] = {}
        self._taints: list[Taint] = []
        self._rejections: list[Rejection] = []
        self.outcomes: list[RuleOutcome] = []

    @property
    def features(self) -> RawFeatures:
        """Return the features that the next rule sees."""
        return self._features

    def evaluate_object(self, rule_object: RuleObject) -> None:
        """Evaluate the rules of one object."""
        for rule in rule_object.rules:
            self.evaluate_rule(rule_object, rule)

    def evaluate_rule(self, rule_object: RuleObject, rule: Rule) -> RuleOutcome:
        """Evaluate one rule of an object, and return the outcome."""
        outcome = RuleOutcome(rule_object.name, rule.name, kind=rule_object.kind)
        try:
            output = evaluate_rule(rule, self._features)
        except RuleError as error:
            outcome = outcome._replace(error=str(error))
        else:
            outcome = outcome._replace(matched=output.matched)
            self._collect(output)
            before = self._attributes.get(MATCHED, {})
            self._attributes[MATCHED] = {**before, **output.labels, **output.vars}
        self.outcomes.append(outcome)
        return outcome

    def result(self) -> Evaluation:
        """Return the outputs that may be set."""
        return Evaluation(
            self._valid("label", self._labels, self._policy.error),
            self._valid("annotation", self._annotations, annotation_error, references=False),
            self._valid("extended resource", self._resources, extended_resource_error),
            tuple(self._valid_taints()),
            dict(sorted(self._attributes.get(MATCHED, {}).items())),
            tuple(self.outcomes),
            tuple(self._rejections),
        )

    def _collect(self, output: RuleOutput) -> None:
        for into, entries in (
            (self._labels, output.labels),
            (self._annotations, output.annotations),
            (self._resources, output.extended_resources),
        ):
            into.update((full_name(name), value) for name, value in sorted(entries.items()))
        self._taints += output.taints

    def _valid(
        self, what: str, entries: Mapping[str, str], error: Callable[[str, str], str], *, references: bool = True
    ) -> dict[str, str]:
        valid: dict[str, str] = {}
        for name, text in sorted(entries.items()):
            try:
                value = resolve_reference(text, self._attributes) if references else text
                reason = error(name, value)
            except RuleError as unresolved:
                value, reason = "", str(unresolved)
            if reason:
                self._rejections.append(Rejection(what, name, reason))
            else:
                valid[name] = value
        return valid

    def _valid_taints(self) -> list[Taint]:
        valid: dict[tuple[str, str], Taint] = {}  # a taint is identified by its key and effect
        for taint in self._taints:
            if reason := taint_error(taint):
                self._rejections.append(Rejection("taint", str(taint), reason))
            else:
                valid[taint.key, taint.effect] = taint
        return sorted(valid.values())
