"""Topology requests in the encoding of the API."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_scheduler.quota.topology.request_reader import read_preferred_terms, read_topology_request
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, PreferredSchedulingTerm, SliceConstraint


def test_read_topology_request() -> None:
    assert read_topology_request({}) == PodSetTopologyRequest()
    assert read_topology_request({"required": "rack", "podIndexLabel": "index"}) == PodSetTopologyRequest(
        required="rack"
    )
    assert read_topology_request(
        {"preferred": "rack", "podSetSliceRequiredTopology": "host", "podSetSliceSize": 4}
    ) == PodSetTopologyRequest(preferred="rack", slice_constraints=(SliceConstraint("host", 4),))
    constraints = [{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]
    assert read_topology_request({"podsetSliceRequiredTopologyConstraints": constraints}) == PodSetTopologyRequest(
        slice_constraints=(SliceConstraint("rack", 4), SliceConstraint("host", 2))
    )


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"required": 1}, "topologyRequest.required"),
        ({"unconstrained": "yes"}, "topologyRequest.unconstrained"),
        *(
            ({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": size}, "topologyRequest.podSetSliceSize")
            for size in ("4", -1, True, 4.0)
        ),
        ({"podsetSliceRequiredTopologyConstraints": {}}, "topologyRequest.podsetSliceRequiredTopologyConstraints"),
        *(
            (
                {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 4}, constraint]},
                f"topologyRequest.podsetSliceRequiredTopologyConstraints[1].{name}",
            )
            for constraint, name in (
                ({"topology": 1, "size": 2}, "topology"),
                ({"topology": "host", "size": -1}, "size"),
            )
        ),
    ],
)
def test_invalid_request_names_the_field(request_: Any, field: str) -> None:
    with pytest.raises(FieldError) as raised:
        read_topology_request(request_)
    assert raised.value.field == field


def test_preferred_terms_have_their_weights() -> None:
    """An absent weight is 0; a term without requirements matches no node."""
    expressions = [{"key": "zone", "operator": "In", "values": ["a"]}]
    preferred: list[Any] = [
        {"weight": 7, "preference": {"matchExpressions": expressions}},
        {"preference": {"matchExpressions": expressions}},
        {"weight": 9, "preference": {}},
    ]
    affinity: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    term = NodeSelectorTerm((Requirement("zone", "In", ("a",)),))
    assert read_preferred_terms({"affinity": affinity}) == (
        PreferredSchedulingTerm(7, term),
        PreferredSchedulingTerm(0, term),
    )
    assert read_preferred_terms({}) == ()


@pytest.mark.parametrize(
    ("preferred", "field"),
    [
        ({"weight": True}, "weight"),
        ({"preference": []}, "preference"),
        ({"preference": {"matchExpressions": {}}}, "preference.matchExpressions"),
    ],
)
def test_an_invalid_preference_names_the_field(preferred: Any, field: str) -> None:
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity: dict[str, Any] = {"nodeAffinity": {name: [{"weight": 1, "preference": {}}, preferred]}}
    with pytest.raises(FieldError) as raised:
        read_preferred_terms({"affinity": affinity})
    assert raised.value.field == f"spec.affinity.nodeAffinity.{name}[1].{field}"
