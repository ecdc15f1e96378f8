"""Requests as the Workload's topologyRequest has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldError, abbreviated, object_in, objects_in, string_in
from zonewise_common.k8s.nodeaffinity import read_required_terms
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, PreferredSchedulingTerm, SliceConstraint

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT = "topologyRequest."


def read_topology_request(request: Mapping[str, Any]) -> PodSetTopologyRequest:
    """Return what a PodSetTopologyRequest asks for; raise FieldError, naming field and value, for what is none."""
    unconstrained = request.get("unconstrained") or False
    if not isinstance(unconstrained, bool):
        raise FieldError(f"{_AT}unconstrained", f"not true or false: {abbreviated(unconstrained)}")
    layers = tuple(
        SliceConstraint(string_in(one, "topology", _AT), _size(one, "size"))
        for one in objects_in(request, "podsetSliceRequiredTopologyConstraints", _AT)
    )
    level = string_in(request, "podSetSliceRequiredTopology", _AT)
    if level and not layers:  # the form for one layer, of Workloads written before there were several
        layers = (SliceConstraint(level, _size(request, "podSetSliceSize")),)
    return PodSetTopologyRequest(
        string_in(request, "required", _AT), string_in(request, "preferred", _AT), unconstrained, layers
    )


def read_preferred_terms(spec: Mapping[str, Any]) -> tuple[PreferredSchedulingTerm, ...]:
    """Return the terms of the preferred node affinity of a pod's spec, those left out that match no node.

    Raises FieldError, naming field and value, for what no API server would take.
    """
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = object_in(object_in(spec, "affinity", "spec."), "nodeAffinity", "spec.affinity.")
    found: list[PreferredSchedulingTerm] = []
    for one in objects_in(affinity, name, "spec.affinity.nodeAffinity."):
        term = {"nodeSelectorTerms": [object_in(one, "preference", f"{name}.")]}
        required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        weight = _size(one, "weight")
        found += [PreferredSchedulingTerm(weight, each) for each in read_required_terms({"affinity": required}) or ()]
    return tuple(found)


def _size(owner: Mapping[str, Any], name: str) -> int:
    """Return a number; 0 where it is absent."""
    value = owner.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FieldError(f"{_AT}{name}", f"not a number of pods: {abbreviated(value)}")
    return value
