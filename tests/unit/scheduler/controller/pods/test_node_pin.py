"""Pins: each alternative of the node affinity is narrowed, and the pinned node is read back."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.held_pods import held_pod, managed
from zonewise_common.k8s.nodeaffinity import read_required_terms
from zonewise_scheduler.controller.pods.node_pin import pin_to_node, pinned_node

Json = dict[str, Any]

_LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]))
_NODES = ("n1", "n2", "n3")


def _requirements(keys: list[str], operators: list[str], values: list[str]) -> st.SearchStrategy[list[Json]]:
    requirement = {
        "key": st.sampled_from(keys),
        "operator": st.sampled_from(operators),
        "values": st.sampled_from(values).map(lambda value: [value]),
    }
    return st.lists(st.fixed_dictionaries(requirement), max_size=2)


_TERMS: st.SearchStrategy[list[Json]] = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": _requirements(["a", "b"], ["In", "NotIn"], ["1", "2"]),
            "matchFields": _requirements(["metadata.name"], ["In", "NotIn"], ["n1", "n2"]),
        },
    ),
    max_size=3,
)


def _affinity(terms: list[Json]) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}} if terms else {}
    return {"nodeAffinity": required, "podAffinity": {"x": 1}}


def _selects(affinity: Json, node: str, labels: dict[str, str]) -> bool:
    terms = read_required_terms({"affinity": affinity})
    return terms is None or any(
        all(requirement.matches(labels.get(requirement.key)) for requirement in term.match_expressions)
        and all(requirement.matches(node) for requirement in term.match_fields)
        for term in terms
    )


@given(terms=_TERMS, labels=_LABELS, pinned=st.sampled_from(_NODES))
def test_a_pinned_pod_runs_only_on_its_node_and_only_if_it_could_before(
    terms: list[Json], labels: dict[str, str], pinned: str
) -> None:
    before = _affinity(terms)
    original = copy.deepcopy(before)
    after = pin_to_node(before, pinned)
    assert before == original
    assert after["podAffinity"] == {"x": 1}
    for node in _NODES:
        assert _selects(after, node, labels) == (node == pinned and _selects(before, node, labels))


@given(terms=_TERMS, pinned=st.sampled_from(_NODES))
def test_a_pin_is_idempotent_and_read_back(terms: list[Json], pinned: str) -> None:
    after = pin_to_node(_affinity(terms), pinned)
    assert pin_to_node(after, pinned) == after
    kept = read_required_terms({"affinity": after})
    pod = managed(held_pod("p", affinity=after))
    if kept and not any(term.get("matchFields") for term in terms):
        assert pinned_node(pod) == pinned


def test_the_node_of_a_bound_pod_is_known() -> None:
    assert pinned_node(managed(held_pod("p", nodeName="n7"))) == "n7"


def test_a_pod_that_may_choose_between_nodes_is_not_pinned() -> None:
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in ("n1", "n2")]
    assert pinned_node(managed(held_pod("p", affinity=_affinity(fields)))) == ""
