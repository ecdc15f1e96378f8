"""Pods that share allocated claims need their nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.nodeaffinity import read_selector_term
from zonewise_scheduler.quota.api.claim_nodes import with_claim_nodes
from zonewise_scheduler.quota.api.workload_reader import read_workload

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = "abc"


def term(name: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def workload(own: list[Json] | None, *claims: str) -> Json:
    spec: Json = {
        "containers": [{"name": "c"}],
        "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims],
    }
    if own is not None:
        spec["affinity"] = {"podAffinity": {}, "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}}}
    return {"metadata": {"name": "w"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}]}}


def selected(obj: Json) -> set[str]:
    """Return the nodes that the required node affinity of the pods selects."""
    affinity = obj["spec"]["podSets"][0]["template"]["spec"]["affinity"]
    terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    read = [read for each in terms if (read := read_selector_term(each, "")) is not None]
    return {node for node in NODES if any(all(field.matches(node) for field in each.match_fields) for each in read)}


def test_only_pods_that_name_an_allocated_claim_are_restricted() -> None:
    nodes = {"c": [term("a")]}
    for obj in (workload(None), workload([term("b")]), workload(None, "other")):
        assert with_claim_nodes(obj, nodes) is obj
        assert with_claim_nodes(obj, {}) is obj
    obj = workload(None, "c")
    assert selected(with_claim_nodes(obj, nodes)) == {"a"}
    assert obj == workload(None, "c")


def test_other_affinity_is_kept_and_the_workload_can_be_read() -> None:
    obj = with_claim_nodes(workload([term("a")], "c"), {"c": [term("b")]})
    assert obj["spec"]["podSets"][0]["template"]["spec"]["affinity"]["podAffinity"] == {}
    read = read_workload(obj)
    assert (read.workload is not None, read.problems) == (True, ())
    assert selected(obj) == set()


NAMES = st.lists(st.sampled_from(NODES), min_size=1, max_size=3)


@given(st.none() | NAMES, st.lists(NAMES, min_size=1, max_size=2))
def test_a_pod_needs_a_node_of_each_claim_and_of_its_own_affinity(
    own: list[str] | None, claims: list[list[str]]
) -> None:
    nodes = {f"c{i}": [term(name) for name in names] for i, names in enumerate(claims)}
    obj = workload(None if own is None else [term(name) for name in own], *nodes)
    expected = set(NODES if own is None else own).intersection(*claims)
    assert selected(with_claim_nodes(obj, nodes)) == expected


def test_an_empty_term_selects_no_node() -> None:
    assert selected(with_claim_nodes(workload([{}], "c"), {"c": [term("a")]})) == set()


def test_an_invalid_field_is_named() -> None:
    obj = workload(None, "c")
    obj["spec"]["podSets"][0]["template"]["spec"]["affinity"] = 3
    with pytest.raises(FieldError, match=r"spec\.podSets\[0\]\.template\.spec\.affinity"):
        with_claim_nodes(obj, {"c": [term("a")]})
