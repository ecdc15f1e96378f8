"""The plugin's Filter (filter.go, numaresources.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.resource_names import is_compute
from zonewise_scheduler.nodes.noderesourcetopology.numaresources import (
    Amounts,
    is_host_level_resource,
    node_info_resources,
)
from zonewise_scheduler.nodes.noderesourcetopology.pluginhelpers import (
    SINGLE_NUMA_NODE,
    NUMANode,
    create_numa_node_list,
    read_topology_manager,
)
from zonewise_scheduler.nodes.noderesourcetopology.resourcerequests import PluginPod, read_plugin_pod
from zonewise_scheduler.nodes.noderesourcetopology.status import FilterStatus, PanicError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.pod import Qos

_EVERY_ZONE = (1 << 64) - 1
_PASSES = FilterStatus("passes")
_UNALIGNED: dict[Role, str] = {
    "init": "cannot align init container",
    "sidecar": "cannot align sidecar container",
    "app": "cannot align container",
}


def filter_node(nrt: Mapping[str, Any] | None, pod: Mapping[str, Any], allocatable: Iterable[str]) -> FilterStatus:
    """Tell whether the plugin lets a pod go to a node.

    Takes the node's NodeResourceTopology (None: there is none), a v1.Pod, and the resources that the node's
    status.allocatable names, of which only the names count. Raises FieldError, naming field and value.

    Only single-numa-node is ever enforced. Init containers and sidecars are each compared with zones that no other
    container uses; containers are taken off the lowest zone that has enough, as the kubelet does.
    """
    asked = read_plugin_pod(pod)
    if nrt is None or (asked.qos == "BestEffort" and not asked.include_non_native()):
        return _PASSES
    manager = read_topology_manager(nrt)
    if manager.policy != SINGLE_NUMA_NODE:
        return _PASSES
    try:
        zones = create_numa_node_list(nrt)
    except PanicError as panic:
        return FilterStatus("crashes", str(panic))
    known = node_info_resources(allocatable)
    if manager.scope == "container":
        return _by_container(zones, asked, known)
    fitting = _zones_that_fit(zones, asked.effective_requests(), asked.qos, known)
    return _PASSES if fitting else FilterStatus("refuses", "cannot align pod")


def _suffices(qos: Qos, name: str, amount: int, available: int) -> bool:
    """Tell whether an amount is enough: any is, of what zones give to Guaranteed pods only (isNUMAAffineResource)."""
    return (qos != "Guaranteed" and is_compute(name)) or available >= amount


def _by_container(zones: list[NUMANode], pod: PluginPod, known: frozenset[str]) -> FilterStatus:
    for part in pod.containers:
        fitting = _zones_that_fit(zones, part.requests, pod.qos, known)
        if not fitting:
            return FilterStatus("refuses", _UNALIGNED[part.role])
        lowest = (fitting & -fitting).bit_length() - 1
        if part.role == "app" and not _take(zones, lowest, pod.qos, part.requests):
            return FilterStatus("refuses", "inconsistent resource accounting")
    return _PASSES


def _zones_that_fit(zones: list[NUMANode], requests: Amounts, qos: Qos, known: frozenset[str]) -> int:
    """Return bits of the zones with enough of everything (resourcesAvailableInAnyNUMANodes); all 64 if all is enough.

    A host's resource that no zone lists is not looked at; a native one (memory, hugepages) refuses, even to pods to
    which the kubelet would give it from anywhere.
    """
    fitting = _EVERY_ZONE
    for name, amount in requests.items():
        if not amount:
            continue
        if name not in known:
            return 0
        having = [zone for zone in zones if name in zone.available]
        if having or not is_host_level_resource(name):
            fitting &= _bits(zone for zone in having if _suffices(qos, name, amount, zone.available[name]))
    return fitting


def _bits(zones: Iterable[NUMANode]) -> int:
    bits = 0
    for zone in zones:
        bits |= 1 << zone.id
    return bits


def _take(zones: list[NUMANode], lowest: int, qos: Qos, requests: Amounts) -> bool:
    """Take requests off a zone; False where another zone of the same name has too little."""
    for zone in zones:
        if zone.id == lowest:
            for name, amount in requests.items():
                if amount and name in zone.available and not (qos != "Guaranteed" and is_compute(name)):
                    zone.available[name] -= amount
                    if zone.available[name] < 0:
                        return False
    return True
