"""What is kept of a v1.Node and of the pods on it, less than 1 KB of each.

Nodes of a kind share their labels and taints, which differ in nothing but the labels that repeat the node's name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from zonewise_scheduler.fit.model.fields import amounts, pairs, part, text
from zonewise_scheduler.fit.model.node import Room
from zonewise_scheduler.fit.nodes.ports import HostPort, host_ports
from zonewise_scheduler.fit.nodes.requests import NOTHING, held_requests, room_of
from zonewise_scheduler.fit.nodes.taints import Taint, read_taints

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
    allocatable: Room = NOTHING
    release: tuple[int, int] | None = None
    """Of its kubelet; None: it does not say."""
    requested: Room = NOTHING
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


class HeldPod(NamedTuple):
    """What a pod on a node counts for."""

    requests: Room
    ports: tuple[HostPort, ...] = ()


def read_node(node: Mapping[str, Any], pods: Iterable[HeldPod] = ()) -> NodeInfo:
    """Return what is kept of a v1.Node with the pods on it, finished ones left out.

    Raises FieldError, naming field and value, for what no API server would have taken.
    """
    metadata, spec, status = (part(node, name, "") for name in ("metadata", "spec", "status"))
    name = text(metadata, "name", "metadata.")
    allocatable = amounts(status, "allocatable", "status.")
    made = NodeInfo(
        name,
        _labels(name, pairs(metadata, "labels", "metadata.")),
        _shared(read_taints(spec)),
        spec.get("unschedulable") is True,
        _shared(room_of(allocatable)),
        _release(text(part(status, "nodeInfo", "status."), "kubeletVersion", "status.nodeInfo.")),
    )
    for pod in pods:
        made = with_pod(made, pod)
    return made


def read_held(pod: Mapping[str, Any]) -> HeldPod:
    """Return what a v1.Pod on a node counts for; raise FieldError for what no API server would have taken."""
    return HeldPod(held_requests(pod), host_ports(pod))


def with_pod(node: NodeInfo, pod: HeldPod) -> NodeInfo:
    """Return a node with one more pod."""
    ports = tuple(sorted(node.ports + pod.ports)) if pod.ports else node.ports
    return node._replace(requested=added(node.requested, pod.requests), ports=ports)


def without_pod(node: NodeInfo, pod: HeldPod) -> NodeInfo:
    """Return a node without a pod that is on it."""
    ports = list(node.ports)
    for one in pod.ports:
        ports.remove(one)
    return node._replace(requested=added(node.requested, pod.requests, -1), ports=tuple(ports))


def room(node: NodeInfo) -> Room:
    """Return what the requests of its pods leave of a node; below 0 where they exceed it."""
    return added(node.allocatable, node.requested, -1)


def added(one: Room, other: Room, times: int = 1) -> Room:
    """Return the sum of two, the second one counted so many times."""
    others = dict(one.others)
    for name, size in other.others:
        others[name] = others.get(name, 0) + times * size
    return Room(
        one.milli_cpus + times * other.milli_cpus,
        one.memory + times * other.memory,
        one.pods + times * other.pods,
        one.storage + times * other.storage,
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
