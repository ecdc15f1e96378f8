"""How the labels of nodes change, as values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.client.fabric.fabric_changes import label_changes
from zonewise_scheduler.client.fabric.fabric_nodes import LabelledNode
from zonewise_scheduler.fabric.matching import NodeNames


def node(name: str, labels: dict[str, str], owned: set[str]) -> LabelledNode:
    return LabelledNode(NodeNames(name), f"uid-{name}", labels, frozenset(owned))


def test_each_kind_of_change() -> None:
    """New, changed, shared, removed and equal labels."""
    nodes = [
        node("a", {}, set()),
        node("b", {"t0": "old", "t1": "x"}, {"t0", "t1"}),
        node("c", {"t0": "x"}, set()),
        node("d", {"t0": "x"}, {"t0"}),
        node("e", {"t0": "x"}, {"t0"}),
        node("f", {}, set()),
    ]
    desired = {name: {"t0": "x"} for name in "abcd"}
    changes = label_changes(nodes, desired, prune=False)
    assert {change.node: change.parts for change in changes.changes} == {
        "a": ("t0=x",),
        "b": ("t0=x (was old)", "t1 removed"),
        "c": ("t0=x (also set by another manager)",),
    }
    assert changes.unconfirmed == ("e",)
    pruned = label_changes(nodes, desired, prune=True)
    assert {change.node: (change.parts, change.labels) for change in pruned.changes if change.node not in "abc"} == {
        "e": (("t0 removed",), {})
    }
    assert pruned.unconfirmed == ()


LABELS = st.dictionaries(st.sampled_from(["t0", "t1", "t2"]), st.sampled_from("xy"))


@given(LABELS, st.sets(st.sampled_from(["t0", "t1", "t2"])), st.none() | LABELS, st.booleans())
def test_applying_a_change_leaves_nothing_to_change(
    labels: dict[str, str], owned: set[str], desired: dict[str, str] | None, prune: bool
) -> None:
    """After an apply with force, a second run finds nothing. A node without a change is as desired."""
    owned &= labels.keys()
    by_node = {} if desired is None else {"n": desired}
    changes = label_changes([node("n", labels, owned)], by_node, prune=prune).changes
    if changes:
        remaining = {name: value for name, value in labels.items() if name not in owned}
        after = node("n", {**remaining, **changes[0].labels}, set(changes[0].labels))
        assert label_changes([after], by_node, prune=prune).changes == ()
    elif desired is not None:
        assert (owned, {name: labels[name] for name in owned}) == (set(desired), desired)
