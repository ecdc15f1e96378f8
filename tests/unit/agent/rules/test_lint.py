"""Problems of rules that can be found without a node."""

from __future__ import annotations

import pytest

from support.rules import Json, expression, rule_object
from zonewise.rules.lint import ERROR, WARNING, lint_document


def term(expressions: Json | None = None, feature: str = "kernel.version", **fields: Json) -> Json:
    return {"feature": feature, **({"matchExpressions": expressions} if expressions else {}), **fields}


FINE: Json = {
    "labels": {"example.com/a": "@kernel.version.major"},
    "labelsTemplate": "{{range .kernel.version}}{{.Name}}={{.Value}}\n{{end}}",
    "matchFeatures": [term({"full": expression("Ge@version", "6.8")})],
}


def test_a_rule_without_problems() -> None:
    assert lint_document(rule_object(FINE)) == []


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"labels": {"kubernetes.io/a": "1"}}, "label kubernetes.io/a", "namespace kubernetes.io is reserved"),
        ({"labels": {"example.com/a": "@kernel"}}, "label example.com/a", "not a reference @domain.feature.element"),
        ({"annotations": {"example.com/a": "x" * 1025}}, "annotation example.com/a", "more than 1024 bytes"),
        ({"extendedResources": {"example.com/a": "x"}}, "extended resource example.com/a", "not a quantity"),
        ({"taints": [{"key": "example.com/a", "effect": "No"}]}, "taint example.com/a:No", "not one of NoSchedule"),
        ({"labelsTemplate": "{{ env \"HOME\" }}"}, "labelsTemplate", "the function 'env' is not supported"),
        ({"varsTemplate": "{{ if }}"}, "varsTemplate", "a command is missing"),
        ({"matchFeatures": [term(feature="kernel")]}, "matchFeatures", "'kernel' is not DOMAIN.FEATURE"),
        ({"matchFeatures": [term({"a": expression("Gt", "x")})]}, "kernel.version.a", "'x' is not a whole number"),
        ({"matchFeatures": [term({"a": expression("Gt", "1", "2")})]}, "kernel.version.a", "Gt needs 1 value"),
        ({"matchFeatures": [term({"a": expression("GtLt", "2", "1")})]}, "kernel.version.a", "less than the second"),
        ({"matchFeatures": [term({"a": expression("InRegexp", "(?=x)")})]}, "kernel.version.a", "not a regular"),
        ({"matchFeatures": [term({"a": expression("Exists", "x")})]}, "kernel.version.a", "Exists takes no value"),
        ({"matchFeatures": [term({"a": expression("Equals", "x")})]}, "kernel.version.a", "is not an operator"),
        ({"matchFeatures": [term({"a": expression("Gt@number", "1")})]}, "kernel.version.a", "the type 'version'"),
        ({"matchFeatures": [term({"a": {"value": ["x"]}})]}, "kernel.version.a", "op is missing"),
        ({"matchFeatures": [term(matchName=expression("DoesNotExist"))]}, "matchName", "never matches a name"),
        ({"matchFeatures": [{"feature": 5}]}, "rule 'rule 0'", "feature: must be a string, not '5' (int)"),
        ({"labels": {"example.com/a": True}}, "rule 'rule 0'", "must be a string, not 'True' (bool)"),
        ({"matchFeature": []}, "spec.rules[0].matchFeature", "there is no such field"),
        ({"matchFeatures": [term({"a": {"op": "Exists", "vale": []}})]}, "matchExpressions.a.vale", "no such field"),
    ],
)  # fmt: skip
def test_errors_name_the_position(change: Json, where: str, words: str) -> None:
    problems = lint_document(rule_object({**FINE, **change}))
    assert [problem.severity for problem in problems] == [ERROR]
    assert where in problems[0].where
    assert words in problems[0].message


def test_warnings() -> None:
    rules = [{}, {"matchFeatures": [term({"a": expression("In@version", "x")})]}]
    assert [problem.severity for problem in lint_document(rule_object(*rules))] == [WARNING, WARNING]


@pytest.mark.parametrize(
    "document", [None, [], "x", {}, {"kind": "NodeFeatureRule"}, {"kind": "Pod", "apiVersion": "v1"}]
)
def test_other_documents(document: object) -> None:
    [problem] = lint_document(document)
    assert problem.severity == ERROR


def test_groups_have_fewer_fields() -> None:
    group = rule_object({"matchFeatures": [term()], "labels": {}}, kind="NodeFeatureGroup")
    [problem] = lint_document(group)
    assert problem.where == "spec.featureGroupRules[0].labels"
