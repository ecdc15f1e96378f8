"""When rules are evaluated on a node, and on which features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.machines import gpu_server
from support.rules import expression, rule_object
from zonewise.daemon.node_rules import UNKNOWN, NodeRules
from zonewise.nfd.types import NO_LOCAL_FEATURES, LocalFeatures
from zonewise.rules.parsing import parse_object

if TYPE_CHECKING:
    from zonewise.rules.types import RuleObject

GROUP = "NodeFeatureGroup"
NAME = {"feature": "system.name", "matchExpressions": {"nodename": expression("In", "node-1")}}
LOCAL = {"feature": "local.feature", "matchExpressions": {"x": expression("Exists")}}
DOCUMENT = rule_object(
    {"labels": {"example.com/name": "true"}, "matchFeatures": [NAME]},
    {"labels": {"example.com/local": "true"}, "matchFeatures": [LOCAL]},
    {"name": "broken", "matchFeatures": [{}]},
)  # fmt: skip


def test_all_features_of_the_node_count() -> None:
    state = NodeRules("node-1", lambda: (parse_object(DOCUMENT),)).state(gpu_server(), LocalFeatures({"x": "1"}))
    assert state.evaluation is not None
    assert {"example.com/name", "example.com/local"} <= state.evaluation.labels.keys()
    field = "spec.rules[2].matchFeatures[0].feature"
    assert state.problems == (f"NodeFeatureRule rules: rule 'broken' failed: {field}: must be a string, not absent",)


def test_rules_are_evaluated_again_only_after_a_change() -> None:
    rules: list[tuple[RuleObject, ...] | None] = [(parse_object(DOCUMENT),)]
    node = NodeRules("node-1", lambda: rules[0])
    machine = gpu_server()
    first = node.state(machine, None)
    rules[0] = (parse_object(DOCUMENT),)
    assert node.state(machine, NO_LOCAL_FEATURES) is first
    assert node.state(machine, LocalFeatures({"x": "1"})) is not first
    rules[0] = ()
    assert node.state(machine, None).evaluation == NodeRules("node-1", lambda: ()).state(machine, None).evaluation


def test_groups_of_the_node() -> None:
    """Groups without rules are evaluated. Failing group rules name their kind. Unknown groups differ from no groups."""
    group = parse_object(rule_object({"matchFeatures": [NAME]}, {"matchFeatures": [{}]}, name="g", kind=GROUP))
    groups: list[tuple[RuleObject, ...] | None] = [(group,)]
    node = NodeRules("node-1", tuple, groups=lambda: groups[0])
    evaluation, [problem] = node.state(gpu_server(), None)
    assert evaluation is not None
    assert evaluation.groups == ("g",)
    assert problem.startswith("NodeFeatureGroup g: rule 'rule 1' failed")
    groups[0] = None
    evaluation, problems = node.state(gpu_server(), None)
    assert evaluation is not None
    assert (evaluation.groups, problems) == (None, ())
    with_rules = NodeRules("node-1", lambda: (parse_object(DOCUMENT),), groups=lambda: None)
    evaluation, _ = with_rules.state(gpu_server(), None)
    assert evaluation is not None
    assert evaluation.groups is None
    assert "example.com/name" in evaluation.labels


def test_labels_that_the_cluster_denies_are_reported() -> None:
    node = NodeRules("node-1", lambda: (parse_object(DOCUMENT),), policy=((), ("example.com",), ""))
    state = node.state(gpu_server(), None)
    assert state.evaluation is not None
    assert state.evaluation.labels == {}
    assert "the namespace example.com is denied by rules.denyLabelNs" in state.problems[-1]


def test_unknown_rules_differ_from_no_rules() -> None:
    assert NodeRules("node-1", lambda: None).state(gpu_server(), None) == (None, (UNKNOWN,))
    assert NodeRules("node-1", lambda: None, lambda: "no").state(gpu_server(), None).problems == (f"{UNKNOWN}: no",)
