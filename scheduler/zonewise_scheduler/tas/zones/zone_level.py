"""Zones as the level below the host: requests for zones are translated to requests for hosts.

A pod goes to a host, and its kubelet chooses the zones. So hosts are the leaves, and each counts as many pods as its
kubelet admits in the requested zones (node_filling.py). A host counts as one zone if it has no report, or if its
kubelet does not align pods.

The API's TopologyAssignment ends at the hostname; `TASSnapshot.predicted_admissions` returns the zones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.topology.types import HOSTNAME, SliceConstraint
from zonewise_scheduler.tas.zones.node_filling import ANY_ZONE, SINGLE_ZONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest

ZONE_LEVEL = "zonewise.dev/zone"
"""The level of a node's NUMA zones; a pod set may request it if the lowest level is the hostname."""


def requests_zones(request: PodSetTopologyRequest | None) -> bool:
    """Return whether a request names the zone level."""
    if request is None:
        return False
    return ZONE_LEVEL in {request.required, request.preferred, *(layer.level for layer in request.slice_constraints)}


def host_levels(levels: Sequence[str]) -> tuple[str, ...]:
    """Return the levels that are node labels; raise ValueError if the zone level is not directly below the hostname."""
    if ZONE_LEVEL in levels and tuple(levels[-2:]) != (HOSTNAME, ZONE_LEVEL):
        raise ValueError(f"topology: {ZONE_LEVEL} is a level only right below {HOSTNAME}: {', '.join(levels)}")
    return tuple(level for level in levels if level != ZONE_LEVEL)


@lru_cache(maxsize=1 << 10)
def as_host_request(request: PodSetTopologyRequest | None, *, strict: bool) -> tuple[PodSetTopologyRequest | None, int]:
    """Return a valid request in terms of hosts, and its zone slice size (node_filling.py).

    `strict`: a preferred zone is treated as required.
    """
    if request is None or not requests_zones(request):
        return request, ANY_ZONE
    layers, zone_slice_size = _as_host_layers(request.slice_constraints)
    if request.required == ZONE_LEVEL or (strict and request.preferred == ZONE_LEVEL):
        return request._replace(required=HOSTNAME, preferred="", slice_constraints=layers), SINGLE_ZONE
    preferred = HOSTNAME if request.preferred == ZONE_LEVEL else request.preferred
    return request._replace(preferred=preferred, slice_constraints=layers), zone_slice_size


def _as_host_layers(layers: tuple[SliceConstraint, ...]) -> tuple[tuple[SliceConstraint, ...], int]:
    """Return the slice layers of hosts, and the zone slice size; slices of hosts consist of whole zone slices."""
    if not layers or layers[-1].level != ZONE_LEVEL:
        return layers, ANY_ZONE
    outer, zone_slice_size = layers[:-1], layers[-1].size
    if outer and outer[-1].level == HOSTNAME:
        return outer, zone_slice_size
    return (*outer, SliceConstraint(HOSTNAME, zone_slice_size)), zone_slice_size
