"""What is kept of a v1.Node and of the pods on it, less than 1 KB of each.

Nodes of a kind share their labels and taints, which differ in nothing but the labels that repeat the node's name.
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
from zonewise_scheduler.nodes.node.host_ports import HostPort, host_ports
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES, bound_pod_requests, new_resource

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

T = TypeVar("T", bound="Hashable")

_RELEASE = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?", re.ASCII)


class Labels(NamedTuple):
    """Labels, in parts that nodes share."""

    keys: tuple[str, ...] = ()
    """Sorted."""
    values: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Sorted keys of further labels, whose value is the node's name."""


class NodeInfo(NamedTuple):
    """A node and the sum of its pods."""

    name: str
    labels: Labels = Labels()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resource = NO_RESOURCES
    release: tuple[int, int] | None = None
    """Of its kubelet; None: it does not say."""
    requested: Resource = NO_RESOURCES
    """`pods` is how many there are."""
    ports: tuple[HostPort, ...] = ()
    """Used on the host, sorted."""

    def label(self, key: str) -> str | None:
        """Return the value of a label; None without it."""
        keys, values, named = self.labels
        place = bisect_left(keys, key)
        if place < len(keys) and keys[place] == key:
            return values[place]
        return self.name if key in named else None


class PodInfo(NamedTuple):
    """What a pod on a node counts for."""

    requests: Resource
    ports: tuple[HostPort, ...] = ()


def read_node_info(node: Mapping[str, Any], pods: Iterable[PodInfo] = ()) -> NodeInfo:
    """Return what is kept of a v1.Node with the pods on it, finished ones left out.

    Raises FieldError, naming field and value, for what no API server would have taken.
    """
    metadata, spec, status = (object_in(node, name, "") for name in ("metadata", "spec", "status"))
    name = string_in(metadata, "name", "metadata.")
    allocatable = quantities_in(status, "allocatable", "status.")
    made = NodeInfo(
        name,
        _labels(name, string_map_in(metadata, "labels", "metadata.")),
        _shared(read_taints(spec)),
        spec.get("unschedulable") is True,
        _shared(new_resource(allocatable)),
        _release(string_in(object_in(status, "nodeInfo", "status."), "kubeletVersion", "status.nodeInfo.")),
    )
    for pod in pods:
        made = add_pod(made, pod)
    return made


def read_pod_info(pod: Mapping[str, Any]) -> PodInfo:
    """Return what a v1.Pod on a node counts for; raise FieldError for what no API server would have taken."""
    return PodInfo(bound_pod_requests(pod), host_ports(pod))


def add_pod(node: NodeInfo, pod: PodInfo) -> NodeInfo:
    """Return a node with one more pod."""
    ports = tuple(sorted(node.ports + pod.ports)) if pod.ports else node.ports
    return node._replace(requested=add_resources(node.requested, pod.requests), ports=ports)


def remove_pod(node: NodeInfo, pod: PodInfo) -> NodeInfo:
    """Return a node without a pod that is on it."""
    ports = list(node.ports)
    for one in pod.ports:
        ports.remove(one)
    return node._replace(requested=add_resources(node.requested, pod.requests, -1), ports=tuple(ports))


def available(node: NodeInfo) -> Resource:
    """Return what the requests of its pods leave of a node; below 0 where they exceed it."""
    return add_resources(node.allocatable, node.requested, -1)


def add_resources(base: Resource, addend: Resource, times: int = 1) -> Resource:
    """Return the sum of two, the second one counted so many times."""
    others = dict(base.scalar_resources)
    for name, size in addend.scalar_resources:
        others[name] = others.get(name, 0) + times * size
    return Resource(
        base.milli_cpus + times * addend.milli_cpus,
        base.memory + times * addend.memory,
        base.pods + times * addend.pods,
        base.ephemeral_storage + times * addend.ephemeral_storage,
        tuple(sorted((name, size) for name, size in others.items() if size)),
    )


def _shared(value: T) -> T:
    """Return the value that others have got for an equal one."""
    return cast("T", _first_of_equals(value))


@lru_cache(1 << 16)
def _first_of_equals(value: Hashable) -> Hashable:
    return value


def _labels(name: str, labels: tuple[tuple[str, str], ...]) -> Labels:
    others = [(key, value) for key, value in labels if value != name]
    return Labels(
        _shared(tuple(intern(key) for key, _ in others)),
        _shared(tuple(intern(value) for _, value in others)),
        _shared(tuple(intern(key) for key, value in labels if value == name)),
    )


def _release(version: str) -> tuple[int, int] | None:
    found = _RELEASE.fullmatch(version)
    return _shared((int(found[1]), int(found[2]))) if found else None
