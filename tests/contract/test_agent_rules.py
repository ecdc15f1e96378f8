"""`zonewise agent` evaluates the cluster's NodeFeatureRules, and sets and removes their outputs."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from support.agents import NODE_PATH, Site, new_site
from support.rules import CRD, GROUP_CRD, GROUPS, RULES, group_object, rule_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.agents import AgentProcess
    from support.api import Json

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVENTS = "/api/v1/namespaces/default/events"
MATCHING: Json = {
    "labels": {"example.com/cores": "@cpu.topology.socket_count", "unprefixed": "yes"},
    "annotations": {"example.com/note": "two sockets"},
    "extendedResources": {"example.com/slots": "2000"},
    "taints": [{"key": "example.com/special", "value": "x", "effect": "PreferNoSchedule"}],
    "matchFeatures": [{"feature": "system.name", "matchExpressions": {"nodename": {"op": "Exists"}}}],
}


@pytest.fixture
def site() -> Iterator[Site]:
    with new_site() as made:
        made.api.post(CRDS, CRD).ok()
        yield made


def outputs(site: Site) -> dict[str, Any]:
    """Return everything that rules may set on the Node, except the agent's record of it."""
    node = site.api.get(NODE_PATH).ok()
    metadata = node["metadata"]
    mine = ("example.com/", "feature.node.kubernetes.io/unprefixed")
    return {
        "labels": {name: value for name, value in metadata.get("labels", {}).items() if name.startswith(mine)},
        "annotations": {
            name: value for name, value in metadata.get("annotations", {}).items() if name.startswith("example.com/")
        },
        "capacity": node.get("status", {}).get("capacity", {}),
        "taints": [taint for taint in node["spec"].get("taints", []) if taint["key"].startswith("example.com/")],
    }


def recorded(site: Site, prefix: str) -> list[str]:
    """Return the names that the agents of all instances record as their own, twice if two agents record a name."""
    annotations = site.api.get(NODE_PATH).ok()["metadata"]["annotations"]
    names: list[str] = []
    for name, text in annotations.items():
        if name.startswith("zonewise.dev/labels"):
            names += text.split(",")
        elif name.startswith("zonewise.dev/rules."):
            names += [one for owned in json.loads(text).values() for one in owned]
    return sorted(name for name in names if name.startswith(prefix))


def start(site: Site, *flags: str) -> AgentProcess:
    return site.start("--rules-enabled=true", "--publish-nrt=false", *flags)


BEFORE: Json = {"labels": {"example.com/rack": "r1"}, "annotations": {}, "capacity": {}, "taints": []}
AFTER: Json = {
    "labels": {"example.com/rack": "r1", "example.com/cores": "2", "feature.node.kubernetes.io/unprefixed": "yes"},
    "annotations": {"example.com/note": "two sockets"},
    "capacity": {"example.com/slots": "2000"},
    "taints": [],
}


def test_outputs_are_set_and_removed_with_their_rule(site: Site) -> None:
    """Taints are disabled. A failing rule gets an Event and is counted, and the other rules stay in force."""
    agent = start(site)
    site.api.post(RULES, rule_object(MATCHING, name="a")).ok()
    agent.until(lambda: outputs(site) == AFTER)
    failing = {"labelsTemplate": "{{ nope }}", "matchFeatures": [{"feature": "system.name"}]}
    site.api.post(RULES, rule_object(failing, name="b")).ok()
    agent.until(lambda: agent.metric('zonewise_rules{state="failed"}') == 1)
    agent.until(lambda: bool(site.api.get(EVENTS).ok()["items"]))
    [event] = site.api.get(EVENTS).ok()["items"]
    assert event["reason"] == "NodeFeatureRuleFailed"
    assert "b, rule 'rule 0': template, line 1: the function 'nope' is not supported" in event["message"]
    assert outputs(site) == AFTER
    site.api.delete(f"{RULES}/a").ok()
    agent.until(lambda: outputs(site) == BEFORE)


def test_outputs_survive_a_restart_and_are_removed_when_rules_are_disabled(site: Site) -> None:
    site.api.post(RULES, rule_object(MATCHING, name="a")).ok()
    agent = start(site, "--rules-taints=true")
    with_taints = {**AFTER, "taints": MATCHING["taints"]}
    agent.until(lambda: outputs(site) == with_taints)
    agent.end()
    assert outputs(site) == with_taints
    agent = site.start("--publish-nrt=false")
    agent.until(lambda: outputs(site) == BEFORE)


def test_outputs_are_removed_when_rules_are_disabled_and_labels_are_off(site: Site) -> None:
    site.api.post(RULES, rule_object(MATCHING, name="a")).ok()
    agent = start(site, "--rules-taints=true", "--publish-labels=off")
    agent.until(lambda: outputs(site) == {**AFTER, "labels": BEFORE["labels"], "taints": MATCHING["taints"]})
    agent.end()
    agent = site.start("--publish-nrt=false", "--publish-labels=off")
    agent.until(lambda: outputs(site) == BEFORE)


def test_metrics_of_rules_disappear_when_a_reload_disables_them(site: Site) -> None:
    """Neither a failed rule nor the age of a closed watch can fire an alert."""
    site.api.post(CRDS, GROUP_CRD).ok()
    failing = {"labelsTemplate": "{{ nope }}", "matchFeatures": [{"feature": "system.name"}]}
    site.api.post(RULES, rule_object(failing, name="a")).ok()
    settings = site.directory / "settings.yaml"
    settings.write_text("rules: {enabled: true}\n")
    agent = site.start("--config", str(settings))
    samples = ('zonewise_rules{state="failed"} 1.0', 'zonewise_watch_age_seconds{resource="nodefeaturerules"}')
    agent.until(lambda: all(sample in agent.page("/metrics")[1] for sample in samples))
    settings.write_text("rules: {enabled: false}\n")
    agent.until(lambda: agent.said.count("starts") >= 2)
    page = agent.page("/metrics")[1]
    assert [name for name in ("zonewise_rules{", 'resource="nodefeature') if name in page] == []


def test_outputs_that_are_disabled(site: Site) -> None:
    """The agent removes outputs that were set before, and leaves the labels."""
    site.api.post(RULES, rule_object(MATCHING, name="a")).ok()
    agent = start(site)
    agent.until(lambda: outputs(site) == AFTER)
    agent.end()
    agent = start(site, "--rules-annotations=false", "--rules-extended-resources=false")
    agent.until(lambda: outputs(site) == {**AFTER, "annotations": {}, "capacity": {}})


def test_labels_in_an_extra_namespace(site: Site) -> None:
    """Settings allow labels in a reserved namespace; only the label with an invalid name is dropped."""
    labels = {"node-role.kubernetes.io/gpu": "true", "node-role.kubernetes.io/a b": "true"}
    site.api.post(RULES, rule_object({**MATCHING, "labels": labels}, name="a")).ok()
    agent = start(site, "--rules-extra-label-ns=node-role.kubernetes.io")
    agent.until(lambda: site.api.get(NODE_PATH).ok()["metadata"]["labels"].get("node-role.kubernetes.io/gpu") == "true")
    assert "not a qualified name" in agent.said


def groups(site: Site) -> str | None:
    annotations = site.api.get(NODE_PATH).ok()["metadata"].get("annotations", {})
    return annotations.get("zonewise.dev/feature-groups.node")


def test_groups_are_recorded_and_removed_when_rules_are_disabled(site: Site) -> None:
    """The kind may be installed later. The record drops a group that does not match or is deleted."""
    agent = start(site)
    agent.until(lambda: groups(site) == "")
    site.api.post(CRDS, GROUP_CRD).ok()
    site.api.post(GROUPS, group_object({"matchFeatures": MATCHING["matchFeatures"]}, name="a")).ok()
    site.api.post(GROUPS, group_object({"matchFeatures": [{"feature": "none.none"}]}, name="b")).ok()
    agent.send(signal.SIGHUP)  # looks for the kind again, which the agent otherwise does once a minute
    agent.until(lambda: groups(site) == "default/a")
    site.api.delete(f"{GROUPS}/a").ok()
    agent.until(lambda: groups(site) == "")
    agent.end()
    agent = site.start("--publish-nrt=false")
    agent.until(lambda: groups(site) is None)


def test_agents_of_different_settings_do_not_overwrite_each_other(site: Site) -> None:
    """The first agent owns the outputs; the second sets an output only once the first has left it."""
    site.api.post(RULES, rule_object(MATCHING, name="a")).ok()
    first = start(site, "--rules-taints=true", "--instance=first")
    first.until(lambda: outputs(site)["taints"] == MATCHING["taints"])
    second = site.start("--rules-enabled=true", "--publish-nrt=false", "--instance=second")
    second.until(lambda: second.metric('zonewise_rules{state="matched"}') == 1)
    changed = {**MATCHING, "annotations": {"example.com/note": "other"}, "extendedResources": {"example.com/more": "1"}}
    metadata = site.api.get(f"{RULES}/a").ok()["metadata"]
    site.api.put(f"{RULES}/a", {**rule_object(changed, name="a"), "metadata": metadata}).ok()
    expected = {**AFTER, "annotations": changed["annotations"], "capacity": changed["extendedResources"]}
    expected["taints"] = MATCHING["taints"]
    second.until(lambda: outputs(site) == expected and recorded(site, "example.com/") == RECORDED)
    for agent in (first, second):
        agent.send(signal.SIGHUP)  # both read the Node again
    second.until(lambda: second.said.count("starts") == 2 and first.said.count("starts") == 2)
    second.until(lambda: outputs(site) == expected and recorded(site, "example.com/") == RECORDED)


RECORDED = ["example.com/cores", "example.com/more", "example.com/note", "example.com/special:PreferNoSchedule"]
