"""Requests and Topologies with the zone level."""

from __future__ import annotations

import pytest

from support.fit_nodes import STRICT, container, node, pod
from support.tas_clusters import (
    LEVELS,
    Host,
    find_hosts,
    flavor_topologies,
    job,
    pods_of_shape,
    zoned_cluster,
)
from zonewise_scheduler.quota.api.workload_types import TopologyRequest
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

WIDE = pod(container(cpus=6, gib=4))
"""A pod; a zone of 8 CPUs holds one."""


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (
            PodSetTopologyRequest(
                "rack", slice_constraints=(SliceConstraint(ZONE_LEVEL, 2), SliceConstraint(HOSTNAME, 1))
            ),
            "must be at a lower level",
        ),
        (
            PodSetTopologyRequest(ZONE_LEVEL, slice_constraints=(SliceConstraint(HOSTNAME, 2),)),
            "is above the podset topology",
        ),
    ],
)
def test_invalid_zone_requests(request_: PodSetTopologyRequest, problem: str) -> None:
    failure = find_hosts(zoned_cluster([node(2, 4, **STRICT)]), job("one", pods_of_shape(WIDE, 2, request_)))
    assert isinstance(failure, TopologyPlacementFailure)
    assert problem in failure.reason


def test_topology_with_a_zone_level() -> None:
    """A Topology may have the zone level, which is not a node label; without kubelets it is unknown."""
    request = TopologyRequest(PodSetTopologyRequest(ZONE_LEVEL))
    assert zoned_cluster([node()]).tas_snapshot.has_level("all", request)
    levels = (*LEVELS, ZONE_LEVEL)
    hosts = [Host("one", "x", 4)]
    assert [topology.tree.level_keys for topology in flavor_topologies(hosts, levels)] == [LEVELS, LEVELS]
    assert not TASSnapshot(flavor_topologies(hosts)).has_level("all", request)
    with pytest.raises(ValueError, match="is a level only right below"):
        flavor_topologies(hosts, ("rack", ZONE_LEVEL))
