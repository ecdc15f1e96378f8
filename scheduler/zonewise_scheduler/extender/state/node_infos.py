"""All nodes, each with the requests and host ports of its bound and assumed pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.node.node_info import NodeInfo, add_pod, remove_pod
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.nodes.node.node_info import PodInfo


class NodeInfos:
    """The NodeInfo of each node, as in kube-scheduler's cache (pkg/scheduler/backend/cache/cache.go)."""

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._pods: dict[str, tuple[str, PodInfo]] = {}
        self._pods_by_node: dict[str, dict[str, PodInfo]] = {}
        self._changed: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def get(self, name: str) -> NodeInfo | None:
        """Return a node with its pods, or None if there is no such node."""
        return self._infos.get(name)

    def node_of(self, uid: str) -> str | None:
        """Return the node of a pod, or None for an unknown pod."""
        node, _ = self._pods.get(uid, (None, None))
        return node

    def requests(self, uid: str) -> Resource:
        """Return the requests of a pod; none for an unknown pod."""
        _, pod = self._pods.get(uid, ("", None))
        return NO_RESOURCES if pod is None else pod.requests

    def take_changed(self) -> list[str]:
        """Return the nodes that have changed since the last call."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def set_node(self, node: NodeInfo) -> None:
        """Add or update a node that was read without its pods."""
        for pod in self._pods_by_node.get(node.name, {}).values():
            node = add_pod(node, pod)
        if self._infos.get(node.name) != node:
            self._infos[node.name] = node
            self._changed.add(node.name)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods remain known."""
        if self._infos.pop(name, None) is not None:
            self._changed.add(name)

    def set_pod(self, uid: str, node: str, pod: PodInfo) -> None:
        """Add a pod to a node, or update it; a pod is on at most one node."""
        if self._pods.get(uid) == (node, pod):
            return
        self.remove_pod(uid)
        self._pods[uid] = node, pod
        self._pods_by_node.setdefault(node, {})[uid] = pod
        info = self._infos.get(node)
        if info is not None:
            self._infos[node] = add_pod(info, pod)
            self._changed.add(node)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod, if present."""
        node, pod = self._pods.pop(uid, ("", None))
        if pod is None:
            return
        pods = self._pods_by_node[node]
        del pods[uid]
        if not pods:
            del self._pods_by_node[node]
        info = self._infos.get(node)
        if info is not None:
            self._infos[node] = remove_pod(info, pod)
            self._changed.add(node)
