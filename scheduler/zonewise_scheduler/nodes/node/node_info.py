"""The parts of a v1.Node and its pods that the filters need, less than 1 KB of each.

Nodes of one kind share their labels and taints, except labels that repeat the node's name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from zonewise_common.k8s.fields import object_in, quantities_in, string_in, string_map_in
from zonewise_common.k8s.taints import Taint, read_taints
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.report.node_facts import NodeFacts
from zonewise_scheduler.admission.report.node_report import DEFAULT_RELEASE
from zonewise_scheduler.admission.resource_names import is_compute, is_extended_resource_name
from zonewise_scheduler.nodes.node.host_ports import HostPort, host_ports
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES, bound_pod_requests, new_resource

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

T = TypeVar("T", bound="Hashable")

_RELEASE = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?", re.ASCII)


class Labels(NamedTuple):
    """Labels, split into parts that nodes share."""

    keys: tuple[str, ...] = ()
    """Sorted keys of the other labels."""
    values: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Sorted keys of the labels whose value is the node's name."""


class NodeInfo(NamedTuple):
    """A node and the sum of its pods (pkg/scheduler/framework/types.go NodeInfo)."""

    name: str
    labels: Labels = Labels()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resource = NO_RESOURCES
    release: tuple[int, int] | None = None
    """Release of the kubelet; None if unknown."""
    requested: Resource = NO_RESOURCES
    """Sum of the pods' requests; `pods` is the number of pods."""
    ports: tuple[HostPort, ...] = ()
    """Host ports in use, sorted."""
    device_capacity: tuple[tuple[str, int], ...] = ()
    """Capacity of the extended resources, sorted by name; it includes unhealthy devices."""

    def label(self, key: str) -> str | None:
        """Return the value of a label, or None without it."""
        keys, values, named = self.labels
        index = bisect_left(keys, key)
        if index < len(keys) and keys[index] == key:
            return values[index]
        return self.name if key in named else None


class PodInfo(NamedTuple):
    """Requests and host ports of a pod on a node."""

    requests: Resource
    ports: tuple[HostPort, ...] = ()


def read_node_info(node: Mapping[str, Any], pods: Iterable[PodInfo] = ()) -> NodeInfo:
    """Return the NodeInfo of a v1.Node with its pods; finished pods must be left out.

    Raises FieldError, which names field and value, for an object that the API server would reject.
    """
    metadata, spec, status = (object_in(node, name, "") for name in ("metadata", "spec", "status"))
    name = string_in(metadata, "name", "metadata.")
    allocatable, capacity = (quantities_in(status, field, "status.") for field in ("allocatable", "capacity"))
    info = NodeInfo(
        name,
        _labels(name, string_map_in(metadata, "labels", "metadata.")),
        _interned(read_taints(spec)),
        spec.get("unschedulable") is True,
        _interned(new_resource(allocatable)),
        _parse_release(string_in(object_in(status, "nodeInfo", "status."), "kubeletVersion", "status.nodeInfo.")),
        device_capacity=_interned(_devices(new_resource(capacity))),
    )
    for pod in pods:
        info = add_pod(info, pod)
    return info


def read_pod_info(pod: Mapping[str, Any]) -> PodInfo:
    """Return the PodInfo of a v1.Pod on a node; raise FieldError for an object that the API server would reject."""
    return PodInfo(bound_pod_requests(pod), host_ports(pod))


def add_pod(node: NodeInfo, pod: PodInfo) -> NodeInfo:
    """Return a node with one more pod."""
    ports = tuple(sorted(node.ports + pod.ports)) if pod.ports else node.ports
    return node._replace(requested=add_resources(node.requested, pod.requests), ports=ports)


def remove_pod(node: NodeInfo, pod: PodInfo) -> NodeInfo:
    """Return a node without one of its pods."""
    ports = list(node.ports)
    for port in pod.ports:
        ports.remove(port)
    return node._replace(requested=add_resources(node.requested, pod.requests, -1), ports=tuple(ports))


def available(node: NodeInfo) -> Resource:
    """Return allocatable minus requested; negative if the requests exceed it."""
    return add_resources(node.allocatable, node.requested, -1)


def lacks(node: NodeInfo, resource: str) -> bool:
    """Return whether a node has none of an extended resource, even when it is idle."""
    if node.allocatable == NO_RESOURCES or not is_extended_resource_name(resource):
        return False
    return all(name != resource for name, _ in node.allocatable.scalar_resources)


def remove_missing_extended_resources(requests: Resource, node: NodeInfo) -> Resource:
    """Return requests without the extended resources that a node lacks.

    If kube-scheduler passes such a node, a DeviceClass provides the resource by its extendedResourceName (KEP-5004), or
    kube-scheduler ignores the resource (ignoredResources, ignoredByScheduler). The kubelet does not count it either
    (pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources).
    """
    offered = tuple(entry for entry in requests.scalar_resources if not lacks(node, entry[0]))
    return requests if offered == requests.scalar_resources else requests._replace(scalar_resources=offered)


def add_resources(base: Resource, addend: Resource, times: int = 1) -> Resource:
    """Return the sum of `base` and `times` times the addend."""
    scalar_resources = dict(base.scalar_resources)
    for name, size in addend.scalar_resources:
        scalar_resources[name] = scalar_resources.get(name, 0) + times * size
    return Resource(
        base.milli_cpus + times * addend.milli_cpus,
        base.memory + times * addend.memory,
        base.pods + times * addend.pods,
        base.ephemeral_storage + times * addend.ephemeral_storage,
        tuple(sorted((name, size) for name, size in scalar_resources.items() if size)),
    )


def with_name_label(node: NodeInfo, key: str) -> NodeInfo:
    """Return a node with its name as the value of a label, unless the node already has the label."""
    if node.label(key) is not None:
        return node
    return node._replace(labels=node.labels._replace(named=_interned(tuple(sorted((*node.labels.named, key))))))


def kubelet_facts(node: NodeInfo | None) -> NodeFacts:
    """Return the facts about a node's kubelet; None: unknown, so the kubelet counts as the newest known one."""
    if node is None:
        return NodeFacts(DEFAULT_RELEASE)
    return NodeFacts(node.release or DEFAULT_RELEASE, node.device_capacity)


def _interned(value: T) -> T:
    """Return the first value seen that is equal to this one, so that nodes share it."""
    return cast("T", _first_equal(value))


@lru_cache(1 << 16)
def _first_equal(value: Hashable) -> Hashable:
    return value


def _labels(name: str, labels: tuple[tuple[str, str], ...]) -> Labels:
    plain = [(key, value) for key, value in labels if value != name]
    return Labels(
        _interned(tuple(intern(key) for key, _ in plain)),
        _interned(tuple(intern(value) for _, value in plain)),
        _interned(tuple(intern(key) for key, value in labels if value == name)),
    )


def _devices(resource: Resource) -> tuple[tuple[str, int], ...]:
    return tuple((name, count) for name, count in resource.scalar_resources if not is_compute(name))


def _parse_release(version: str) -> tuple[int, int] | None:
    match = _RELEASE.fullmatch(version)
    return _interned((int(match[1]), int(match[2]))) if match else None
