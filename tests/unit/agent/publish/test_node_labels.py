"""The patch of a Node's labels: it sets the agent's own, removes obsolete ones, and never touches others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.label_cluster import NFD_ANNOTATION, Cluster
from zonewise.publish.node_labels import ANNOTATION, NodeLabelsPatch, field_manager, node_labels_patch, owned_labels
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.resources import NODES

A, B, C = "zonewise.dev/a", "nvidia.com/b", "feature.node.kubernetes.io/c"


def metadata(labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    """Return a Node's metadata; `ours` and `nfd` are the two relevant annotations."""
    names = {"ours": ANNOTATION, "nfd": NFD_ANNOTATION, "nfd2": f"second.{NFD_ANNOTATION}"}
    fields: dict[str, Any] = {"name": "n", "resourceVersion": "5"}
    if labels is not None:
        fields["labels"] = labels
    if annotations:
        fields["annotations"] = {names[key]: value for key, value in annotations.items()}
    return fields


def change(labels: dict[str, str | None], record: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"labels": labels} if labels else {}
    return {"metadata": {"resourceVersion": "5", **fields, "annotations": {ANNOTATION: record}}}


def test_a_new_node() -> None:
    """One patch has the labels and the record of them."""
    assert node_labels_patch({A: "1", B: "x"}, metadata()) == NodeLabelsPatch(
        change({A: "1", B: "x"}, f"{B},{A}"), owned=2
    )


def test_nothing_differs() -> None:
    """There is no patch, even if nothing is desired and nothing is present."""
    assert node_labels_patch({A: "1"}, metadata({A: "1", "other.io/x": "y"}, ours=A)).body == {}
    assert node_labels_patch({}, metadata()).body == {}


def test_only_what_differs() -> None:
    """Only changed values are sent."""
    patch = node_labels_patch({A: "2", B: "x"}, metadata({A: "1", B: "x"}, ours=f"{B},{A}"))
    assert patch.body == {"metadata": {"resourceVersion": "5", "labels": {A: "2"}}}


def test_removal() -> None:
    """Obsolete labels are removed from the Node and from the record; an empty record is removed too."""
    assert node_labels_patch({A: "1"}, metadata({A: "1", B: "x"}, ours=f"{A},{B}")) == NodeLabelsPatch(
        change({B: None}, A), owned=1
    )
    assert node_labels_patch({}, metadata({A: "1"}, ours=A)) == NodeLabelsPatch(change({A: None}, None))


def test_a_removed_label() -> None:
    """A removed label of the agent is set again; one that is no longer desired is only dropped from the record."""
    assert node_labels_patch({A: "1"}, metadata({}, ours=A)).body == {
        "metadata": {"resourceVersion": "5", "labels": {A: "1"}}
    }
    assert node_labels_patch({}, metadata({}, ours=A)) == NodeLabelsPatch(change({}, None))


def test_a_changed_label() -> None:
    """The annotation records it as the agent's."""
    assert node_labels_patch({A: "1"}, metadata({A: "9"}, ours=A)).body["metadata"]["labels"] == {A: "1"}


def test_a_label_of_another_manager() -> None:
    """The label is not changed, and its manager is named if the server records it."""
    managed: list[Any] = [
        {"manager": "kubelet", "fieldsV1": {"f:metadata": {"f:labels": {"f:kubernetes.io/arch": {}}}}},
        {"manager": "gfd", "fieldsV1": {"f:metadata": {"f:labels": {f"f:{B}": {}}}}},
    ]
    current = metadata({B: "theirs"})
    assert node_labels_patch({B: "ours"}, current).body == {}
    assert "of another manager" in node_labels_patch({B: "ours"}, current).problems[0]
    assert "of gfd" in node_labels_patch({B: "ours"}, {**current, "managedFields": managed}).problems[0]
    assert field_manager(A, {"managedFields": managed}) is None


def test_an_equal_label_of_another_manager() -> None:
    """An equal value is not a problem, and the agent will not remove it later."""
    assert node_labels_patch({B: "x"}, metadata({B: "x"})) == NodeLabelsPatch({})
    assert node_labels_patch({}, metadata({B: "x"})) == NodeLabelsPatch({})


@pytest.mark.parametrize("which", ["nfd", "nfd2"])
def test_labels_claimed_by_nfd_are_no_longer_ours(which: str) -> None:
    """A label that a master has claimed is the master's, whatever the agent's record. Names may lack NFD's prefix."""
    current = metadata({A: "9", C: "9"}, ours=f"{C},{A}", **{which: f"c,{A}"})
    patch = node_labels_patch({A: "1", C: "1"}, current)
    assert patch.body == {"metadata": {"resourceVersion": "5", "annotations": {ANNOTATION: None}}}
    assert len(patch.problems) == 2
    assert node_labels_patch({}, current).body == patch.body


def test_labels_claimed_by_nfd_but_not_set_yet() -> None:
    """The master is about to set it."""
    assert node_labels_patch({A: "1"}, metadata({}, nfd=A)) == NodeLabelsPatch({})


@pytest.mark.parametrize("name", ["kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "plain", ""])
def test_a_record_cannot_be_made_to_remove_others(name: str) -> None:
    """The agent never removes a label that it would not set, even if the annotation lists it."""
    current = metadata({name: "x"} if name else {}, ours=f"{A},{name}")
    assert owned_labels(current) == {A}
    assert node_labels_patch({}, current).body["metadata"].get("labels", {}) == {}


NAMES = [A, B, C, "zonewise.dev/d"]
DESIRED = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["", "1", "2"]))
FOREIGN = st.tuples(st.sampled_from([*NAMES, "other.io/x"]), st.sampled_from([None, "1", "3"]))


def publish(cluster: Cluster, desired: dict[str, str]) -> None:
    patch = node_labels_patch(desired, cluster.node)
    if patch.body:
        cluster.patch(NODES, "node-7", patch.body, kind=PatchKind.MERGE)


@settings(max_examples=200)
@given(st.lists(st.one_of(DESIRED, FOREIGN), max_size=12), DESIRED)
def test_any_changes_by_others(steps: list[dict[str, str] | tuple[str, str | None]], last: dict[str, str]) -> None:
    """Labels of others are never touched; finally, exactly the desired and permitted labels are set and owned."""
    cluster = Cluster()
    theirs: dict[str, str] = {"kubernetes.io/hostname": "node-7"}
    for step in (*steps, last):
        if isinstance(step, tuple):
            name, value = step
            if name not in owned_labels(cluster.node):  # otherwise it is the agent's, and their change does not last
                theirs.pop(name, None)
                theirs |= {} if value is None else {name: value}
            cluster.label(name, value)
        else:
            publish(cluster, step)
            assert theirs.items() <= cluster.labels.items()
            writes = len(cluster.writes)
            publish(cluster, step)
            assert len(cluster.writes) == writes, "nothing differs, and it was written"
    ours = {name: value for name, value in last.items() if name not in theirs}
    assert cluster.labels == theirs | ours
    assert owned_labels(cluster.node) == ours.keys()


def test_agents_of_two_instances_do_not_touch_each_others_labels() -> None:
    """Neither agent sets or removes labels of the other, or changes its record."""
    first = patched({A: "1", B: "x"}, {"resourceVersion": "1"}, "")
    second = patched({B: "y"}, first, "second")
    assert second["labels"] == first["labels"]
    third = patched({"zonewise.dev/c": "3"}, second, "second")
    assert third["labels"] == {**first["labels"], "zonewise.dev/c": "3"}
    assert third["annotations"] == {ANNOTATION: f"{B},{A}", f"{ANNOTATION}.second": "zonewise.dev/c"}
    assert node_labels_patch({A: "1", B: "x"}, third).body == {}
    assert patched({}, patched({}, third, "second"), "")["labels"] == {}


def patched(desired: dict[str, str], metadata: dict[str, Any], instance: str) -> dict[str, Any]:
    """Return the metadata after the patch of an instance."""
    changes = node_labels_patch(desired, metadata, instance).body.get("metadata", {})
    result: dict[str, Any] = {"resourceVersion": "1"}
    for field in ("labels", "annotations"):
        merged = {**metadata.get(field, {}), **changes.get(field, {})}
        result[field] = {name: value for name, value in merged.items() if value is not None}
    return result


# --- takeover


def take_over(desired: dict[str, str], current: dict[str, Any]) -> NodeLabelsPatch:
    return node_labels_patch(desired, current, take_over=lambda _name: True)


def test_abandoned_labels_become_ours() -> None:
    """So do labels that NFD's annotation claims; its other names and undesired labels are not changed."""
    labels = {A: "1", B: "old", C: "9", "feature.node.kubernetes.io/rule": "x"}
    patch = take_over({B: "new", C: "9"}, metadata(labels, nfd=f"c,rule,{B}", nfd2="c"))
    annotations = {ANNOTATION: f"{C},{B}", NFD_ANNOTATION: "rule", f"second.{NFD_ANNOTATION}": None}
    fields = {"resourceVersion": "5", "labels": {B: "new"}, "annotations": annotations}
    assert patch == NodeLabelsPatch({"metadata": fields}, (), 2, {B: "nfd-master", C: "nfd-master"})
    assert node_labels_patch({B: "new", C: "9"}, metadata(labels, nfd=f"c,rule,{B}")).adopted == {}


@pytest.mark.parametrize(
    ("manager", "adopted"),
    [
        (None, "an unknown manager"),
        ("gpu-feature-discovery", "gpu-feature-discovery"),
        ("nfd-master", "nfd-master"),
        ("k8s-node-labeller", "k8s-node-labeller"),
        ("kubectl-label", None),
    ],
)
def test_whose_labels_are_taken_over(manager: str | None, adopted: str | None) -> None:
    """Labels of labellers, which are named, are; labels set by a person or another controller are not."""
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{B}": {}}}}
    managed: list[Any] = [] if manager is None else [{"manager": manager, "fieldsV1": fields}]
    patch = take_over({B: "x"}, {**metadata({B: "y"}), "managedFields": managed})
    assert patch.adopted.get(B) == adopted
    assert bool(patch.problems) == (adopted is None)


@pytest.mark.parametrize("name", [A, "example.com/rack"])
def test_labels_of_other_namespaces_are_not_taken_over(name: str) -> None:
    assert take_over({name: "1"}, metadata({name: "2"})).adopted == {}


def test_labels_claimed_by_a_master_but_not_set_are_not_taken_over() -> None:
    """The master is about to set it, so it is active."""
    assert take_over({C: "1"}, metadata({}, nfd="c")) == NodeLabelsPatch({})


def test_labels_of_another_instance_are_not_taken_over() -> None:
    """They have NFD's names and no recorded manager, but belong to an active agent."""
    first = patched({B: "x"}, {"resourceVersion": "1"}, "")
    assert node_labels_patch({B: "y"}, first, "second", take_over=lambda _name: True).adopted == {}
