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
_UNALIGNED_MESSAGES: dict[Role, str] = {
    "init": "cannot align init container",
    "sidecar": "cannot align sidecar container",
    "app": "cannot align container",
}


def filter_node(nrt: Mapping[str, Any] | None, pod: Mapping[str, Any], allocatable: Iterable[str]) -> FilterStatus:
    """Return whether the plugin passes a node for a pod.

    Takes the node's NodeResourceTopology (None: there is none), a v1.Pod, and the names of the resources in the node's
    status.allocatable. Raises FieldError, which names field and value.

    The plugin enforces only single-numa-node. It compares each init container and sidecar with the zones as if no other
    container used them. It subtracts app containers from the lowest zone that has enough, as the kubelet does.
    """
    plugin_pod = read_plugin_pod(pod)
    if nrt is None or (plugin_pod.qos == "BestEffort" and not plugin_pod.include_non_native()):
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
        return _filter_by_container(zones, plugin_pod, known)
    fitting = _zones_that_fit(zones, plugin_pod.effective_requests(), plugin_pod.qos, known)
    return _PASSES if fitting else FilterStatus("rejects", "cannot align pod")


def _is_enough(qos: Qos, name: str, amount: int, available: int) -> bool:
    """Return whether an amount is enough (isNUMAAffineResource).

    Any amount is enough if zones provide the resource only to Guaranteed pods, and the pod is not Guaranteed.
    """
    return (qos != "Guaranteed" and is_compute(name)) or available >= amount


def _filter_by_container(zones: list[NUMANode], pod: PluginPod, known: frozenset[str]) -> FilterStatus:
    for container in pod.containers:
        fitting = _zones_that_fit(zones, container.requests, pod.qos, known)
        if not fitting:
            return FilterStatus("rejects", _UNALIGNED_MESSAGES[container.role])
        lowest = (fitting & -fitting).bit_length() - 1
        if container.role == "app" and not _subtract(zones, lowest, pod.qos, container.requests):
            return FilterStatus("rejects", "inconsistent resource accounting")
    return _PASSES


def _zones_that_fit(zones: list[NUMANode], requests: Amounts, qos: Qos, known: frozenset[str]) -> int:
    """Return a bit per zone with enough of everything (resourcesAvailableInAnyNUMANodes); all 64 if all is enough.

    A host-level resource that no zone lists is ignored. A native resource that no zone lists (memory, hugepages) causes
    a rejection, even of pods to which the kubelet would allocate it from any zone.
    """
    fitting = _EVERY_ZONE
    for name, amount in requests.items():
        if not amount:
            continue
        if name not in known:
            return 0
        listing = [zone for zone in zones if name in zone.available]
        if listing or not is_host_level_resource(name):
            fitting &= _bits(zone for zone in listing if _is_enough(qos, name, amount, zone.available[name]))
    return fitting


def _bits(zones: Iterable[NUMANode]) -> int:
    bits = 0
    for zone in zones:
        bits |= 1 << zone.id
    return bits


def _subtract(zones: list[NUMANode], lowest: int, qos: Qos, requests: Amounts) -> bool:
    """Subtract requests from a zone; return False if another zone of the same name has too little."""
    for zone in zones:
        if zone.id == lowest:
            for name, amount in requests.items():
                if amount and name in zone.available and not (qos != "Guaranteed" and is_compute(name)):
                    zone.available[name] -= amount
                    if zone.available[name] < 0:
                        return False
    return True
