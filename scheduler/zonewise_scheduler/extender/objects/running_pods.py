"""The bound pods of each node, with the fields that determine the victims of a preemption."""

from __future__ import annotations

from collections import Counter
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_scheduler.extender.objects.static_pods import static_uid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.nodes.assumed.types import BoundPod


class VictimFields(NamedTuple):
    """The fields of a bound pod that decide whether it may be a victim."""

    priority: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    """Labels; pods share the strings."""
    terminating: bool = False
    """False for a static pod: it outlives the deletion of its mirror pod."""
    static: bool = False


class NodePod(NamedTuple):
    """A bound pod."""

    pod: BoundPod
    fields: VictimFields


def read_victim_fields(pod: Mapping[str, Any]) -> VictimFields:
    """Return the fields of a v1.Pod; a field of the wrong type counts as absent."""
    spec, metadata = _object(pod.get("spec")), _object(pod.get("metadata"))
    priority = spec.get("priority")
    labels = _object(metadata.get("labels")).items()
    static = bool(static_uid(metadata))
    return VictimFields(
        priority if isinstance(priority, int) else 0,
        tuple(sorted((intern(key), intern(value)) for key, value in labels if isinstance(value, str))),
        metadata.get("deletionTimestamp") is not None and not static,
        static,
    )


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


class RunningPods:
    """See the module."""

    def __init__(self) -> None:
        self._pods: dict[str, NodePod] = {}
        self._by_node: dict[str, dict[str, NodePod]] = {}
        self._lowest: dict[str, int] = {}
        self._priorities: Counter[int] = Counter()

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> NodePod | None:
        """Return a pod, if present."""
        return self._pods.get(uid)

    def set(self, pod: BoundPod, fields: VictimFields) -> None:
        """Add a pod, or update it."""
        old = self._pods.get(pod.uid)
        if old is not None and (old.pod.node != pod.node or old.fields.priority != fields.priority):
            self.remove(pod.uid)
        running = NodePod(pod, fields)
        self._priorities[fields.priority] += pod.uid not in self._pods
        self._pods[pod.uid] = running
        self._by_node.setdefault(pod.node, {})[pod.uid] = running
        self._lowest[pod.node] = min(self._lowest.get(pod.node, fields.priority), fields.priority)

    def remove(self, uid: str) -> None:
        """Remove a pod, if present."""
        running = self._pods.pop(uid, None)
        if running is None:
            return
        priority = running.fields.priority
        self._priorities[priority] -= 1
        if not self._priorities[priority]:
            del self._priorities[priority]
        node = running.pod.node
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node], self._lowest[node]
        elif priority == self._lowest[node]:
            self._lowest[node] = min(each.fields.priority for each in pods.values())

    def on_node(self, node: str) -> list[NodePod]:
        """Return the pods of a node."""
        return list(self._by_node.get(node, {}).values())

    def has_below(self, priority: int) -> bool:
        """Return whether any pod has a lower priority."""
        return any(each < priority for each in self._priorities)

    def lowest_priority(self, node: str) -> int | None:
        """Return the lowest priority of the pods of a node, or None if it has no pods."""
        return self._lowest.get(node)
