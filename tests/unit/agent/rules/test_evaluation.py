"""Rules over features: order, references, rejections and groups. tests/grading grades the engine."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_rules import RULES, TEXTS
from support.rules import Json, rule_object
from zonewise.rules.evaluation import evaluate
from zonewise.rules.parsing import parse_object, parse_rule
from zonewise.rules.types import Evaluation, FeatureSet, RuleObject, RuleOutcome, Taint

FEATURES = FeatureSet(
    {"cpu.cpuid": ("AVX", "SSE")},
    {"kernel.version": {"major": "6", "full": "6.8.0-1"}},
    {"pci.device": ({"vendor": "10de", "class": "0302"}, {"vendor": "8086", "class": "0200"})},
)
ALWAYS: Json = {"matchFeatures": [{"feature": "kernel.version"}]}
NEVER: Json = {"matchFeatures": [{"feature": "no.such"}]}


def evaluated(*documents: Json) -> Evaluation:
    return evaluate([parse_object(document) for document in documents], FEATURES)


def matched(name: str, value: str) -> Json:
    """Return a rule that matches a label or variable of an earlier rule."""
    expression = {"op": "In", "value": [value]}
    return {"matchFeatures": [{"feature": "rule.matched", "matchExpressions": {name: expression}}]}


def test_objects_are_evaluated_by_name_and_the_later_rule_wins() -> None:
    late = rule_object({**ALWAYS, "labels": {"example.com/a": "late"}}, name="b")
    early = rule_object(
        {**ALWAYS, "labels": {"example.com/a": "1"}}, {**ALWAYS, "labels": {"example.com/a": "2"}}, name="a"
    )
    assert evaluated(late, early).labels == {"example.com/a": "late"}
    assert evaluated(early).labels == {"example.com/a": "2"}


def test_later_rules_see_labels_as_written_and_variables() -> None:
    rules = [
        {**ALWAYS, "labels": {"plain": "1"}, "vars": {"v": "2"}},
        {**matched("plain", "1"), "labels": {"example.com/label": "yes"}},
        {**matched("v", "2"), "labels": {"example.com/variable": "yes"}},
        {**matched("feature.node.kubernetes.io/plain", "1"), "labels": {"example.com/full": "no"}},
    ]
    assert evaluated(rule_object(*rules)).labels == {
        "example.com/label": "yes",
        "example.com/variable": "yes",
        "feature.node.kubernetes.io/plain": "1",
    }


def test_references_are_resolved_or_rejected() -> None:
    labels = {"example.com/major": "@kernel.version.major", "example.com/none": "@kernel.version.none"}
    evaluation = evaluated(
        rule_object({**ALWAYS, "labels": labels, "extendedResources": {"n": "@kernel.version.major"}})
    )
    assert evaluation.labels == {"example.com/major": "6"}
    assert evaluation.extended_resources == {"feature.node.kubernetes.io/n": "6"}
    [rejection] = evaluation.rejections
    assert (rejection.what, rejection.name) == ("label", "example.com/none")
    assert "kernel.version has no attribute none" in rejection.reason


def test_an_exception_fails_only_its_rule(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The outcome names the exception, and the log has its traceback."""
    monkeypatch.setattr("zonewise.rules.evaluation.expand_map", None)
    evaluation = evaluated(rule_object({**ALWAYS, "labelsTemplate": "a=1"}, {**ALWAYS, "labels": {"b": "1"}}))
    defect = "TypeError: 'NoneType' object is not callable"
    assert [outcome.error for outcome in evaluation.outcomes] == [f"a defect: {defect}", ""]
    assert evaluation.labels == {"feature.node.kubernetes.io/b": "1"}
    assert defect in caplog.text


def test_an_invalid_output_does_not_affect_the_others() -> None:
    rule = {
        **ALWAYS,
        "labels": {"kubernetes.io/a": "1", "example.com/a": "1"},
        "annotations": {"example.com/a": "x" * 1025, "example.com/b": "x y"},
        "extendedResources": {"example.com/a": "1.5", "example.com/b": "-1", "example.com/c": "2Ki"},
        "taints": [{"key": "example.com/a", "effect": "No"}, {"key": "example.com/a", "effect": "NoSchedule"}],
    }
    evaluation = evaluated(rule_object(rule))
    assert evaluation[:4] == (
        {"example.com/a": "1"},
        {"example.com/b": "x y"},
        {"example.com/c": "2Ki"},
        (Taint("example.com/a", "", "NoSchedule"),),
    )
    assert len(evaluation.rejections) == 5


def test_a_failing_rule_does_not_affect_the_others() -> None:
    rules = [{**ALWAYS, "labelsTemplate": "{{ .a.b }}"}, {**ALWAYS, "labels": {"example.com/a": "1"}}, {"name": 5}]
    evaluation = evaluated(rule_object(*rules, name="object"))
    assert evaluation.labels == {"example.com/a": "1"}
    assert [(one.rule, one.matched, bool(one.error)) for one in evaluation.outcomes] == [
        ("rule 0", False, True),
        ("rule 1", True, False),
        ("spec.rules[2]", False, True),
    ]
    assert evaluation.outcomes[0].error == "template, line 1: there is no field .a: the fields are kernel"


def test_groups_have_members_but_not_variables_of_others() -> None:
    group = rule_object(NEVER, {**ALWAYS, "vars": {"v": "1"}}, name="g", kind="NodeFeatureGroup")
    lonely = rule_object(matched("v", "1"), name="h", kind="NodeFeatureGroup")
    evaluation = evaluated(lonely, group, rule_object({**ALWAYS, "vars": {"v": "1"}}))
    assert evaluation.groups == ("g",)
    assert RuleOutcome("h", "rule 0", kind="NodeFeatureGroup") in evaluation.outcomes


def test_equal_inputs_give_equal_values() -> None:
    documents = [rule_object({**ALWAYS, "labels": {"b": "1", "a": "2"}}, name=name) for name in "ab"]
    assert evaluated(*documents) == evaluated(*reversed(documents))


# --- properties


@settings(max_examples=100, deadline=None)
@given(st.lists(RULES, max_size=3))
def test_no_rule_raises(rules: list[Json]) -> None:
    rule_objects = [RuleObject("a", tuple(parse_rule(rule) for rule in rules))]
    evaluation = evaluate(rule_objects, FEATURES)
    assert len(evaluation.outcomes) == len(rules)


FIELDS = st.sampled_from(["name", "labels", "matchFeatures", "feature", "matchName", "op"])
JSON_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "labels", "matchFeatures", "feature", "matchName", "op"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(JSON_VALUES)
def test_no_value_in_place_of_a_rule_raises(value: Any) -> None:
    rule_objects = [RuleObject("a", (parse_rule(value),))]
    assert len(evaluate(rule_objects, FEATURES).outcomes) == 1


TERM: Json = {"matchFeatures": [{"feature": "a.b"}]}
ALL_NAMES: Json = {"matchFeatures": [{"feature": "a.b", "matchName": {"op": "Exists"}}]}
HOSTILE: list[Json] = [
    {"labelsTemplate": '{{$l := list 1}}' + '{{$l = list $l $l}}' * 60 + "{{$l}}", **TERM},
    {"labelsTemplate": '{{$l := list 1}}' + '{{$l = concat $l $l}}' * 60 + "{{$l}}", **TERM},
    {"labelsTemplate": "{{range 9000000000}}{{end}}", **TERM},
    {"labelsTemplate": "{{range 9000}}{{$x := print $}}{{end}}", **ALL_NAMES},
    {"matchFeatures": [{"feature": "a.b", "matchExpressions": {"x": {"op": "InRegexp", "value": ["(a*)*$b"]}}}]},
    {"matchFeatures": [{"feature": "a.b", "matchName": {"op": "InRegexp", "value": ["(x+x+)+y"]}}]},
    {"labelsTemplate": "{{range .a.b}}" * 40 + "x" + "{{end}}" * 40, **ALL_NAMES},
    {"labelsTemplate": "{{" * 30_000, **TERM},
    {"labelsTemplate": "{{(" + "(" * 60_000, **TERM},
    {"labelsTemplate": "{{/*" * 16_000, **TERM},
    {"labelsTemplate": '{{$s := "' + "x" * 1000 + '"}}' + '{{$s = printf "%s%s" $s $s}}' * 40, **TERM},
    {"labelsTemplate": '{{range 99999999999}}x{{end}}', **TERM},
    {"labelsTemplate": '{{repeat 99999999999 "x"}}', **TERM},
    {"labelsTemplate": '{{printf "%999999999d" 1}}', **TERM},
    {"labelsTemplate": "a" * 70_000, **TERM},
    {"labelsTemplate": "{{if true}}" * 5000, **TERM},
    {"labelsTemplate": "{{" + "9" * 60_000 + "}}", **TERM},
    {"labelsTemplate": "{{" + "len .a.b | " * 5000 + "}}", **TERM},
]  # fmt: skip


@pytest.mark.parametrize("rule", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_rules_end_soon(rule: Json) -> None:
    """Each ends within a second of CPU time on a feature with 2,000 elements; Python's `re` would take years."""
    features = FeatureSet(attributes={"a.b": {"x": "a" * 60_000, **{f"x{i}": "x" * 100 for i in range(2000)}}})
    began = time.process_time()
    [outcome] = evaluate([parse_object(rule_object(rule))], features).outcomes
    assert not outcome.matched
    assert time.process_time() - began < 2.0
