"""Which labels rules may set, by the settings of NFD's master."""

from __future__ import annotations

import pytest

from zonewise.rules.evaluation import evaluate
from zonewise.rules.label_policy import LabelPolicy, expression, namespaces
from zonewise.rules.types import FeatureSet, Rule, RuleObject


@pytest.mark.parametrize(
    ("policy", "name", "error"),
    [
        (LabelPolicy(), "example.com/a", ""),
        (LabelPolicy(), "node.kubernetes.io/a", "the namespace node.kubernetes.io is reserved"),
        (LabelPolicy(("node.kubernetes.io",)), "node.kubernetes.io/a", ""),
        (LabelPolicy(("kubernetes.io",)), "node.kubernetes.io/a", "the namespace node.kubernetes.io is reserved"),
        (LabelPolicy((), ("example.com",)), "example.com/a", "the namespace example.com is denied"),
        (LabelPolicy((), ("example.com",)), "sub.example.com/a", ""),
        (LabelPolicy((), ("*.example.com",)), "sub.example.com/a", "the namespace sub.example.com is denied"),
        (LabelPolicy((), ("*.example.com",)), "example.com/a", ""),
        (LabelPolicy((), ("*",)), "feature.node.kubernetes.io/a", "is denied"),
        (LabelPolicy(("example.com",), ("*",)), "example.com/a", ""),
        (LabelPolicy(("example.com",)), "example.com/a b", "not a qualified name"),
        (LabelPolicy((), (), "^gpu-"), "example.com/gpu-count", ""),
        (LabelPolicy((), (), "^gpu-"), "example.com/a", "does not match rules.labelWhiteList"),
        (LabelPolicy(("node.kubernetes.io",), (), "^gpu-"), "node.kubernetes.io/a", "does not match"),
    ],
)
def test_names(policy: LabelPolicy, name: str, error: str) -> None:
    reason = policy.error(name, "v")
    assert error in reason
    assert bool(reason) is bool(error)


def test_a_value_is_checked_in_every_namespace() -> None:
    assert "not a valid label value" in LabelPolicy(("node.kubernetes.io",)).error("node.kubernetes.io/a", "-")
    assert "not a valid label value" in LabelPolicy().error("example.com/a", "-")


def test_a_denied_label_is_dropped_alone() -> None:
    labels = {"example.com/a": "1", "example.com/b": "1", "other.com/a": "1"}
    objects = [RuleObject("rules", (Rule("one", labels=labels),))]
    evaluation = evaluate(objects, FeatureSet({}, {}, {}), LabelPolicy((), ("other.com",), "a"))
    assert evaluation.labels == {"example.com/a": "1"}
    assert sorted(rejection.name for rejection in evaluation.rejections) == ["example.com/b", "other.com/a"]


def test_settings() -> None:
    assert namespaces("a.com, *.b.com,") == namespaces(["a.com", "*.b.com"]) == ("a.com", "*.b.com")
    assert namespaces("") == ()
    assert expression("^a+$") == "^a+$"


@pytest.mark.parametrize("value", ["a.com/b", "a b", 3, ["a", 1]])
def test_invalid_namespaces(value: object) -> None:
    with pytest.raises(ValueError, match="must be label namespaces"):
        namespaces(value)


@pytest.mark.parametrize("value", ["(", 3, r"(?=a)"])
def test_invalid_expressions(value: object) -> None:
    with pytest.raises(ValueError, match="must be a regular expression"):
        expression(value)
