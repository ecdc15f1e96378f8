"""Topology requests in the encoding of the API."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.topology.request_reader import read_topology_request
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint


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
        ({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": "4"}, "topologyRequest.podSetSliceSize"),
        ({"podsetSliceRequiredTopologyConstraints": {}}, "topologyRequest.podsetSliceRequiredTopologyConstraints"),
    ],
)
def test_invalid_request_names_the_field(request_: Any, field: str) -> None:
    with pytest.raises(FieldError) as raised:
        read_topology_request(request_)
    assert raised.value.field == field
