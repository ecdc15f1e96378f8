"""Rules graded against Node Feature Discovery's own evaluation.

The recordings contain rules with the outputs of NFD's commit 76e6cc8c (after v0.19). The outputs come from its rule
engine, from its validation, and from `kubectl-nfd dryrun`. The rule engine feeds outputs back into `rule.matched`, as
NFD's master does. Cases whose result depends on the order of Go's maps are not recorded. A deliberate difference has an
entry below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.rules import Json, full_rule, recorded_features, recordings
from zonewise.rules.evaluation import MATCHED, evaluate_rule, resolve_reference
from zonewise.rules.parsing import parse_object, parse_rule
from zonewise.rules.types import FeatureSet, RuleError, Taint
from zonewise.rules.validation import annotation_error, extended_resource_error, label_error, taint_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.rules.types import RuleOutput

UNSUPPORTED = {
    "a={{'a'}}": "a character constant",
    "a={{0x10}}.{{010}}.{{0b11}}.{{1_000}}": "an underscore in a number",
    'a={{regexMatch "(" "abc"}}': "sprig ignores that the expression is invalid",
    'a={{html "<x>"}}': "html",
    "a={{ 1.5 }}": "a floating-point number",
    'a={{printf "x" 1}}': "Go prints x%!(EXTRA int=1)",
    'a={{printf "%d" "x"}}': "Go prints %!d(string=x)",
    'a={{printf "%s" 5}}': "Go prints %!s(int=5)",
    'a={{printf "%s"}}': "Go prints %!s(MISSING)",
}
"""Templates that are errors here but not in NFD, and the unsupported construct."""

FIELDS = ("labels", "vars", "annotations", "extendedResources", "taints")


def results(features: str, rules: list[Any]) -> list[Any]:
    """Return the output of each rule of a sequence, in the form of the recordings."""
    recorded = recorded_features(features)
    attributes = dict(recorded.attributes)
    found: list[Any] = []
    for short in rules:
        try:
            output = evaluate_rule(
                parse_rule(full_rule(short)), FeatureSet(recorded.flags, attributes, recorded.instances)
            )
        except RuleError:
            found.append("error")
            continue
        attributes[MATCHED] = {**attributes.get(MATCHED, {}), **output.labels, **output.vars}
        found.append(_result(output))
    return found


def _result(output: RuleOutput) -> Any:
    taints = [taint._asdict() for taint in output.taints]
    values = (output.labels, output.vars, output.annotations, output.extended_resources, taints)
    result = {name: value for name, value in zip(FIELDS, values, strict=True) if value}
    if result == {"labels": {"hit": "true"}}:
        return output.matched
    return result if output.matched else False


@pytest.mark.parametrize("features", ["machine", "multi", "none"])
def test_each_rule_has_the_outputs_of_nfd(features: str) -> None:
    cases = [case for case in recordings()["cases"] if case[0] == features]
    assert len(cases) > 100
    differences = [
        (rules, recorded, ours)
        for _, rules, recorded in cases
        if (ours := results(features, rules)) != recorded
        and full_rule(rules[0]).get("labelsTemplate") not in UNSUPPORTED
    ]
    assert differences == []


@pytest.mark.parametrize("template", UNSUPPORTED)
def test_an_unsupported_construct_is_an_error_that_names_it(template: str) -> None:
    [(rules, recorded)] = [
        (rules, recorded)
        for _, rules, recorded in recordings()["cases"]
        if isinstance(rules[0], dict) and rules[0].get("labelsTemplate") == template
    ]
    assert recorded != ["error"]
    with pytest.raises(RuleError, match=r"line 1: .*(supported|verbs|print|value for|expression)"):
        evaluate_rule(parse_rule(full_rule(rules[0])), recorded_features("machine"))


@pytest.mark.parametrize(
    ("what", "error"),
    [("labels", label_error), ("annotations", annotation_error), ("extendedResources", extended_resource_error)],
)
def test_outputs_are_valid_if_nfd_accepts_them(what: str, error: Callable[[str, str], str]) -> None:
    cases = recordings()[what]
    assert len(cases) > 30
    assert [case for case, valid in cases if (error(*case) == "") != valid] == []


def test_taints_are_valid_if_nfd_accepts_them() -> None:
    cases = recordings()["taints"]
    assert len(cases) > 20
    assert [taint for taint, valid in cases if (taint_error(Taint(**taint)) == "") != valid] == []


@pytest.mark.parametrize("case", recordings()["dryrun"], ids=lambda case: case[0]["metadata"]["name"])
def test_objects_have_the_outputs_of_kubectl_nfd_dryrun(case: tuple[Json, Json]) -> None:
    document, recorded = case
    assert dry_run(document) == recorded


def dry_run(document: Json) -> Json:
    """Return the outputs of an object in the form of the recording: no rule sees the outputs of others."""
    features = recorded_features("machine")
    outputs: Json = {name: {} for name in ("labels", "annotations", "extendedResources")}
    taints: list[Taint] = []
    failed: list[str] = []
    unresolved: list[str] = []
    for rule in parse_object(document).rules:
        try:
            output = evaluate_rule(rule, features)
        except RuleError:
            failed.append(rule.name)
            continue
        taints += output.taints
        outputs["annotations"].update(output.annotations)
        for name, entries in (("labels", output.labels), ("extendedResources", output.extended_resources)):
            for key, value in entries.items():
                try:
                    outputs[name][key] = resolve_reference(value, features.attributes)
                except RuleError:
                    unresolved.append(key)
    errors = {"labels": label_error, "annotations": annotation_error, "extendedResources": extended_resource_error}
    result = {
        **outputs,
        **{f"invalid {name}": sorted(key for key, value in outputs[name].items() if error(key, value))
           for name, error in errors.items()},
        "taints": [f"{{{taint.key} {taint.value} {taint.effect} <nil>}}" for taint in taints],
        "invalid taints": [f"{t.key}={t.value}:{t.effect}".rstrip(":") for t in taints if taint_error(t)],
        "failed": sorted(failed),
        "unresolved": sorted(unresolved),
    }  # fmt: skip
    return {name: value for name, value in result.items() if value}
