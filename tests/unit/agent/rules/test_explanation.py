"""Why rules match or not, term by term."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_rules import RULES
from support.rules import Json, expression, rule_object
from zonewise.render.rules import render_explanation
from zonewise.rules.evaluation import evaluate
from zonewise.rules.explanation import explain_rules
from zonewise.rules.parsing import parse_object, parse_rule
from zonewise.rules.types import FeatureSet, RuleObject

FEATURES = FeatureSet(
    {"cpu.cpuid": ("AVX", "SSE")},
    {"kernel.version": {"major": "6"}},
    {"pci.device": ({"vendor": "10de"}, {"vendor": "8086", "numa_node": "1"})},
)
DOCUMENT = rule_object(
    {
        "labels": {"example.com/a": "1"},
        "matchFeatures": [
            {"feature": "cpu.cpuid", "matchName": expression("InRegexp", "^AVX")},
            {
                "feature": "kernel.version",
                "matchExpressions": {"major": expression("Gt", "6"), "x": expression("Gt", "1")},
            },
            {"feature": "pci.device", "matchExpressions": {"vendor": expression("In", "8086")}},
            {"feature": "pci.devices"},
        ],
    },
    {"matchAny": [{"matchFeatures": [{"feature": "cpu.cpuid", "matchExpressions": {"AVX": expression("In", "(")}}]}]},
    {"labels": {"example.com/b": "1"}, "matchFeatures": [{"feature": "rule.matched"}]},
    name="object",
)


def test_terms_after_the_first_failing_one_are_explained() -> None:
    text = render_explanation(explain_rules([parse_object(DOCUMENT)], FEATURES))
    assert (
        text
        == """\
NodeFeatureRule object: rule 'rule 0' does not match
  no  matchFeatures
    yes cpu.cpuid: 2 flags
      yes name InRegexp ["^AVX"]: "AVX"
    no  kernel.version: 1 attribute
      no  major Gt ["6"]: is "6"
      no  x Gt ["1"]: is missing
    yes pci.device: 2 instances
      yes vendor In ["8086"]: 1 of 2 instances match, which have "10de", "8086"
    no  pci.devices: the node has no such feature; it has pci.device

NodeFeatureRule object: rule 'rule 1' does not match
  no  matchAny[0]
    no  cpu.cpuid: 2 flags
      no  AVX In ["("]: is present, without a value

NodeFeatureRule object: rule 'rule 2' matches
  yes matchFeatures
    yes rule.matched: 0 attributes

labels:
  example.com/b=1
"""
    )


def test_the_explanation_has_the_result_of_the_evaluation() -> None:
    group = rule_object({"matchFeatures": [{"feature": "cpu.cpuid"}]}, name="g", kind="NodeFeatureGroup")
    objects = [parse_object(document) for document in (group, DOCUMENT)]
    explanation, evaluation = explain_rules(objects, FEATURES), evaluate(objects, FEATURES)
    assert tuple(rule.outcome for rule in explanation.rules) == evaluation.outcomes
    assert explanation.evaluation.groups == evaluation.groups == ("g",)
    assert explanation.evaluation.labels == evaluation.labels


@settings(max_examples=50, deadline=None)
@given(st.lists(RULES, max_size=2))
def test_any_rule_is_explained_with_the_result_of_the_evaluation(rules: list[Json]) -> None:
    objects = [RuleObject("a", tuple(parse_rule(rule) for rule in rules))]
    explanation = explain_rules(objects, FEATURES)
    assert tuple(rule.outcome for rule in explanation.rules) == evaluate(objects, FEATURES).outcomes
    assert render_explanation(explanation)
