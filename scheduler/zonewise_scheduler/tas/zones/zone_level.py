"""Zones as the level below the host: requests that name it, as requests of hosts.

A pod goes to a host, and there to the zones that its kubelet chooses. So nothing is placed in a zone that the kubelet
would not choose: of each host is counted how many of the pods it takes so that they are in zones as they are to be
(fill.py), and hosts are the leaves. A host without a report is one zone, as is one whose kubelet keeps pods to none.

The API's TopologyAssignment ends at the hostname; Topologies.zones tells the zones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.topology.types import HOSTNAME, SliceConstraint
from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE, ONE_ZONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

ZONE_LEVEL = "zonewise.dev/zone"
"""The level of the NUMA zones of a node: what a pod set may ask for wherever the innermost level is the hostname."""


def requests_zones(request: PodSetTopologyRequest | None) -> bool:
    """Tell whether a request is about zones."""
    if request is None:
        return False
    return ZONE_LEVEL in {request.required, request.preferred, *(layer.level for layer in request.slice_constraints)}


def host_levels(levels: Sequence[str]) -> tuple[str, ...]:
    """Return the levels that nodes have labels of; raise ValueError where zones are below anything but the host."""
    if ZONE_LEVEL in levels and tuple(levels[-2:]) != (HOSTNAME, ZONE_LEVEL):
        raise ValueError(f"topology: {ZONE_LEVEL} is a level only right below {HOSTNAME}: {', '.join(levels)}")
    return tuple(level for level in levels if level != ZONE_LEVEL)


@lru_cache(maxsize=1 << 10)
def as_host_request(request: PodSetTopologyRequest | None, *, strict: bool) -> tuple[PodSetTopologyRequest | None, int]:
    """Return a request of hosts, and what of the zones in them is to be whole (fill.py); it makes sense as it is.

    `strict`: what one zone should hold, it must.
    """
    if request is None or not requests_zones(request):
        return request, ANY_ZONE
    layers, size = _layers(request.slice_constraints)
    if request.required == ZONE_LEVEL or (strict and request.preferred == ZONE_LEVEL):
        return request._replace(required=HOSTNAME, preferred="", slice_constraints=layers), ONE_ZONE
    preferred = HOSTNAME if request.preferred == ZONE_LEVEL else request.preferred
    return request._replace(preferred=preferred, slice_constraints=layers), size


def _layers(layers: tuple[SliceConstraint, ...]) -> tuple[tuple[SliceConstraint, ...], int]:
    """Return layers of hosts, and the size of those of zones; larger slices of hosts consist of such."""
    if not layers or layers[-1].level != ZONE_LEVEL:
        return layers, ANY_ZONE
    outer, size = layers[:-1], layers[-1].size
    return (outer if outer and outer[-1].level == HOSTNAME else (*outer, SliceConstraint(HOSTNAME, size))), size
