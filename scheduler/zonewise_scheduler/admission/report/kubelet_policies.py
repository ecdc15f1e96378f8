"""The part of a kubelet's configuration that determines how it uses zones, read from the attributes of a report."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.tolerant import shortened
from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import read_pairs
from zonewise_scheduler.admission.node import Policies

if TYPE_CHECKING:
    from collections.abc import Mapping

_ATTRIBUTES = (
    names.TOPOLOGY_MANAGER_POLICY,
    names.TOPOLOGY_MANAGER_SCOPE,
    names.TOPOLOGY_MANAGER_MAX_NUMA_NODES,
    names.TOPOLOGY_MANAGER_OPTIONS,
    names.CPU_MANAGER_POLICY,
    names.CPU_MANAGER_OPTIONS,
    names.MEMORY_MANAGER_POLICY,
    names.FEATURE_GATES,
)
_CHOICES = {
    names.TOPOLOGY_MANAGER_POLICY: ("none", "best-effort", "restricted", "single-numa-node"),
    names.TOPOLOGY_MANAGER_SCOPE: ("container", "pod"),
    names.CPU_MANAGER_POLICY: ("none", "static"),
    names.MEMORY_MANAGER_POLICY: ("None", "Static"),
}
"""Valid values of an attribute; the first is the default."""

_DEPRECATED = {
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
    "Restricted": ("restricted", "container"),
    "RestrictedContainerLevel": ("restricted", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "BestEffort": ("best-effort", "container"),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
    "None": ("none", "container"),
}
"""Policy and scope for each of the API's topologyPolicies (pkg/apis/topology/v1alpha2/types.go)."""

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""Texts that Go's strconv.ParseBool reads as true."""


class ReportedPolicies(NamedTuple):
    """Policies, and the problems of damaged attributes."""

    policies: Policies
    problems: tuple[str, ...]


def read_policies(
    attributes: Mapping[str, str], deprecated: tuple[str, ...], release: tuple[int, int]
) -> ReportedPolicies:
    """Return the policies in `attributes`, with the kubelet's defaults for absent ones.

    Policy and scope default to the first of `deprecated`, the topologyPolicies. Both are read in the same way as in
    scheduler-plugins (pkg/noderesourcetopology/nodeconfig).
    """
    first = next(iter(deprecated), "")
    return _read_policies(tuple(attributes.get(name) for name in _ATTRIBUTES), first, release)


@lru_cache(256)
def _read_policies(values: tuple[str | None, ...], deprecated: str, release: tuple[int, int]) -> ReportedPolicies:
    attributes = {name: value for name, value in zip(_ATTRIBUTES, values, strict=True) if value is not None}
    problems: list[str] = []
    policy, scope = _DEPRECATED.get(deprecated, ("none", "container"))
    topology_options = _pairs(attributes, names.TOPOLOGY_MANAGER_OPTIONS, problems)
    cpu_options = _pairs(attributes, names.CPU_MANAGER_OPTIONS, problems)
    gates = _pairs(attributes, names.FEATURE_GATES, problems)
    policies = Policies(
        topology=_choice(attributes, names.TOPOLOGY_MANAGER_POLICY, policy, problems),
        scope=_choice(attributes, names.TOPOLOGY_MANAGER_SCOPE, scope, problems),
        prefer_closest=topology_options.get("prefer-closest-numa-nodes") in _TRUE,
        max_zones=_max_zones(attributes, problems),
        cpu=_choice(attributes, names.CPU_MANAGER_POLICY, "none", problems),
        full_cores=cpu_options.get("full-pcpus-only") in _TRUE,
        strict_reservation=cpu_options.get("strict-cpu-reservation") in _TRUE,
        distribute_across_zones=cpu_options.get("distribute-cpus-across-numa") in _TRUE,
        align_by_package=cpu_options.get("align-by-socket") in _TRUE,
        distribute_across_cores=cpu_options.get("distribute-cpus-across-cores") in _TRUE,
        align_by_cache=cpu_options.get("prefer-align-cpus-by-uncorecache") in _TRUE,
        memory=_choice(attributes, names.MEMORY_MANAGER_POLICY, "None", problems),
        pod_level_managers=gates.get("PodLevelResourceManagers") in _TRUE,
        release=release,
    )
    return ReportedPolicies(policies, tuple(problems))


def _choice(attributes: Mapping[str, str], name: str, default: str, problems: list[str]) -> str:
    value = attributes.get(name) or default  # some writers use an empty text for the default
    if value in _CHOICES[name]:
        return value
    problems.append(f"{name}: none of {', '.join(_CHOICES[name])}: {shortened(value)!r}")
    return default


def _max_zones(attributes: Mapping[str, str], problems: list[str]) -> int:
    value = attributes.get(names.TOPOLOGY_MANAGER_MAX_NUMA_NODES)
    if value is None:
        return Policies().max_zones
    if value.isascii() and value.isdecimal() and len(value) < 9:
        return int(value)
    problems.append(f"{names.TOPOLOGY_MANAGER_MAX_NUMA_NODES}: not a count: {shortened(value)!r}")
    return Policies().max_zones


def _pairs(attributes: Mapping[str, str], name: str, problems: list[str]) -> dict[str, str]:
    try:
        return read_pairs(attributes.get(name, ""))
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return {}
