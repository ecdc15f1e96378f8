"""Custom rules of the worker: the short forms of expressions are equivalent to the long ones."""

from __future__ import annotations

import pytest
import yaml

from zonewise.nfd.custom_rules import parse_custom_rules
from zonewise.rules.types import MatchExpression


def expressions(text: str) -> dict[str, MatchExpression]:
    rule = {"name": "r", "matchFeatures": [{"feature": "a.b", "matchExpressions": yaml.safe_load(text)}]}
    [parsed] = parse_custom_rules([rule])
    assert parsed.error == ""
    return dict(parsed.match_features[0].match_expressions or {})


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("k: v", MatchExpression("In", ("v",))),
        ("k: true", MatchExpression("In", ("true",))),
        ("k: 5", MatchExpression("In", ("5",))),
        ("k: 5.0", MatchExpression("In", ("5",))),
        ("k: 0.25", MatchExpression("In", ("0.25",))),
        ("k: [v, w]", MatchExpression("In", ("v", "w"))),
        ("k:", MatchExpression("Exists")),
        ("[k]", MatchExpression("Exists")),
        ('["k=v=w"]', MatchExpression("In", ("v=w",))),
        ("k: {op: In, value: v}", MatchExpression("In", ("v",))),
        ("k: {op: Gt, value: 3}", MatchExpression("Gt", ("3",))),
        ("k: {op: Exists}", MatchExpression("Exists")),
    ],
)
def test_short_forms(text: str, expression: MatchExpression) -> None:
    assert expressions(text) == {"k": expression}


@pytest.mark.parametrize(
    "rule",
    [5, None, [], {"name": "r", "labels": {"a": []}}, {"name": "r", "matchFeatures": 5},
     {"name": "r", "matchFeatures": [{"feature": 5}]},
     {"name": "r", "matchAny": [5]}, {"name": "r", "matchFeatures": [{"feature": "a.b", "matchExpressions": 5}]}],
)  # fmt: skip
def test_invalid_rules(rule: object) -> None:
    """Each invalid rule has an error with its position; the other rules apply."""
    bad, good = parse_custom_rules([rule, {"name": "good", "labels": {"a": "b"}, "taints": 5}])
    assert bad.error
    assert (good.name, good.labels, good.error) == ("good", {"a": "b"}, "")


def test_alternatives_and_names() -> None:
    rule = {"name": "r", "matchAny": [{"matchFeatures": [{"feature": "a.b", "matchName": "x"}]}]}
    [parsed] = parse_custom_rules([rule])
    assert parsed.match_any[0][0].match_name == MatchExpression("In", ("x",))


def test_a_rule_without_a_name() -> None:
    """The worker's rules need no name."""
    [parsed] = parse_custom_rules([{"labels": {"a": "b"}}])
    assert (parsed.name, parsed.labels, parsed.error) == ("", {"a": "b"}, "")


def test_values_of_labels_are_text() -> None:
    """Numbers, true, false and null become text, as in Go; so do names."""
    labels = yaml.safe_load("{a: 1, b: 2.5, c: true, d:, 5: 6.0, no: x}")
    [parsed] = parse_custom_rules([{"name": 7, "labels": labels, "vars": {"v": False}}])
    assert parsed.error == ""
    assert parsed.name == "7"
    assert parsed.labels == {"a": "1", "b": "2.5", "c": "true", "d": "", "5": "6", "false": "x"}
    assert parsed.vars == {"v": "false"}


def test_names_of_fields_may_be_in_any_case() -> None:
    """A condition with such a name is not lost, which would make the rule match everywhere."""
    terms = [{"Feature": "a.b", "matchexpressions": {"k": {"OP": "In", "Value": ["v"]}}}]
    exact, alternative = parse_custom_rules([{"MatchFeatures": terms}, {"matchany": [{"MATCHFEATURES": terms}]}])
    assert exact.error == alternative.error == ""
    assert exact.match_features == alternative.match_any[0]
    assert exact.match_features[0].match_expressions == {"k": MatchExpression("In", ("v",))}
