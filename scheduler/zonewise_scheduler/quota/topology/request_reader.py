"""Reads a Workload's topologyRequest, and a pod template's preferred node affinity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in
from zonewise_common.k8s.nodeaffinity import read_selector_term
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, PreferredSchedulingTerm, SliceConstraint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PATH = "topologyRequest."


def read_topology_request(request: Mapping[str, Any]) -> PodSetTopologyRequest:
    """Return the PodSetTopologyRequest; raise FieldError, naming field and value, for an invalid one."""
    unconstrained = request.get("unconstrained") or False
    if not isinstance(unconstrained, bool):
        raise FieldError(f"{_PATH}unconstrained", f"not true or false: {abbreviated(unconstrained)}")
    slice_constraints = tuple(_read_slice_constraints(request))
    level = string_in(request, "podSetSliceRequiredTopology", _PATH)
    if level and not slice_constraints:  # the form for one layer, used by older Workloads
        slice_constraints = (SliceConstraint(level, _read_count(request, "podSetSliceSize", _PATH)),)
    return PodSetTopologyRequest(
        string_in(request, "required", _PATH), string_in(request, "preferred", _PATH), unconstrained, slice_constraints
    )


def read_preferred_terms(spec: Mapping[str, Any]) -> tuple[PreferredSchedulingTerm, ...]:
    """Return the terms of a pod spec's preferred node affinity, except terms that match no node.

    Raises FieldError, naming field and value, for a spec that the API server would reject.
    """
    path, field = "spec.affinity.nodeAffinity.", "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = object_in(object_in(spec, "affinity", "spec."), "nodeAffinity", "spec.affinity.")
    terms: list[PreferredSchedulingTerm] = []
    for index, preferred in enumerate(objects_in(affinity, field, path)):
        owner = f"{path}{field}[{index}]."
        weight = _read_count(preferred, "weight", owner)
        term = read_selector_term(object_in(preferred, "preference", owner), f"{owner}preference.")
        if term is not None:
            terms.append(PreferredSchedulingTerm(weight, term))
    return tuple(terms)


def _read_slice_constraints(request: Mapping[str, Any]) -> Iterator[SliceConstraint]:
    name = "podsetSliceRequiredTopologyConstraints"
    for index, constraint in enumerate(objects_in(request, name, _PATH)):
        path = f"{_PATH}{name}[{index}]."
        yield SliceConstraint(string_in(constraint, "topology", path), _read_count(constraint, "size", path))


def _read_count(owner: Mapping[str, Any], name: str, path: str) -> int:
    """Return a number of at least 0; 0 if it is absent."""
    value = owner.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FieldError(f"{path}{name}", f"not a non-negative number: {abbreviated(value)}")
    return value
