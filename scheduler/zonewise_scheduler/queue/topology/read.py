"""Requests as the Workload's topologyRequest has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.fit.model.fields import FieldError, part, parts, short, text
from zonewise_scheduler.fit.nodes.selectors import read_terms
from zonewise_scheduler.queue.topology.model import Layer, Preference, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT = "topologyRequest."


def read_request(request: Mapping[str, Any]) -> Request:
    """Return what a PodSetTopologyRequest asks for; raise FieldError, naming field and value, for what is none."""
    unconstrained = request.get("unconstrained") or False
    if not isinstance(unconstrained, bool):
        raise FieldError(f"{_AT}unconstrained", f"not true or false: {short(unconstrained)}")
    layers = tuple(
        Layer(text(one, "topology", _AT), _size(one, "size"))
        for one in parts(request, "podsetSliceRequiredTopologyConstraints", _AT)
    )
    level = text(request, "podSetSliceRequiredTopology", _AT)
    if level and not layers:  # the form for one layer, of Workloads written before there were several
        layers = (Layer(level, _size(request, "podSetSliceSize")),)
    return Request(text(request, "required", _AT), text(request, "preferred", _AT), unconstrained, layers)


def read_preferences(spec: Mapping[str, Any]) -> tuple[Preference, ...]:
    """Return the terms of the preferred node affinity of a pod's spec, those left out that match no node.

    Raises FieldError, naming field and value, for what no API server would take.
    """
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = part(part(spec, "affinity", "spec."), "nodeAffinity", "spec.affinity.")
    found: list[Preference] = []
    for one in parts(affinity, name, "spec.affinity.nodeAffinity."):
        term = {"nodeSelectorTerms": [part(one, "preference", f"{name}.")]}
        required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        weight = _size(one, "weight")
        found += [Preference(weight, each) for each in read_terms({"affinity": required}) or ()]
    return tuple(found)


def _size(owner: Mapping[str, Any], name: str) -> int:
    """Return a number; 0 where it is absent."""
    value = owner.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FieldError(f"{_AT}{name}", f"not a number of pods: {short(value)}")
    return value
