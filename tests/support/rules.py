"""Recordings of Node Feature Discovery's results for rules, and short forms of rules."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.definitions import ANYTHING, definition_of
from zonewise.rules.parsing import parse_features

if TYPE_CHECKING:
    from zonewise.rules.types import FeatureSet

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "rules" / "nfd_rules.json"

Json = dict[str, Any]


@functools.cache
def recordings() -> Json:
    return json.loads(RECORDINGS.read_text())


@functools.cache
def recorded_features(name: str) -> FeatureSet:
    return parse_features({"kind": "NodeFeature", "spec": {"features": recordings()["features"][name]}})


def full_rule(short: Any) -> Json:
    """Return the API's form of a rule in a recording."""
    rule: Json = {"matchFeatures": short} if isinstance(short, list) else dict(short)
    rule = {**recordings()["defaults"], **rule}
    if "matchFeatures" in rule:
        rule["matchFeatures"] = [_term(term) for term in rule["matchFeatures"]]
    if "matchAny" in rule:
        rule["matchAny"] = [{"matchFeatures": [_term(term) for term in matcher]} for matcher in rule["matchAny"]]
    return rule


def _term(short: Any) -> Json:
    term: Json = {"feature": short[0], "matchExpressions": short[1]} if isinstance(short, list) else dict(short)
    if "matchExpressions" in term:
        term["matchExpressions"] = {name: expression(*one) for name, one in term["matchExpressions"].items()}
    if "matchName" in term:
        term["matchName"] = expression(*term["matchName"])
    return term


def expression(op: str, *value: str) -> Json:
    """Return an expression; `op` is the operator, or "operator@type"."""
    name, at, kind = op.partition("@")
    return {"op": name, "value": list(value), **({"type": kind} if at else {})}


def rule_object(*rules: Json, name: str = "rules", kind: str = "NodeFeatureRule") -> Json:
    """Return an object with these rules."""
    key = "rules" if kind == "NodeFeatureRule" else "featureGroupRules"
    spec = {key: [{"name": f"rule {i}", **rule} for i, rule in enumerate(rules)]}
    return {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
GROUPS = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeaturegroups"
CRD = definition_of("nodefeaturerules.nfd.k8s-sigs.io", "NodeFeatureRule", "v1alpha1", namespaced=False)
"""The kind without its schema."""
_NODES: Json = {
    "type": "array",
    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
GROUP_CRD = definition_of(
    "nodefeaturegroups.nfd.k8s-sigs.io",
    "NodeFeatureGroup",
    "v1alpha1",
    {
        "type": "object",
        "properties": {"spec": ANYTHING, "status": {"type": "object", "properties": {"nodes": _NODES}}},
    },
    status=True,
)
"""The kind with the schema of its status."""


def group_object(*rules: Json, name: str) -> Json:
    """Return a NodeFeatureGroup in the namespace default."""
    document = rule_object(*rules, name=name, kind="NodeFeatureGroup")
    return {**document, "metadata": {"name": name, "namespace": "default"}}
