"""Pods whose binding is on its way, or done and not yet observed: their nodes count them already.

| event | the pod |
|---|---|
| its binding is written | is assumed on its node |
| the binding fails: another has bound it, or it is gone | is forgotten |
| it is observed on a node, or ended, or deleted | is forgotten: the observation counts |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.node.node_info import add_resources
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Resource


class AssumedPods:
    """See the module."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        """By UID."""
        self._requests: dict[str, dict[str, Resource]] = {}
        """By node and UID."""

    def __contains__(self, uid: str) -> bool:
        """Tell whether a pod is assumed."""
        return uid in self._nodes

    def assume(self, uid: str, node: str, requests: Resource) -> None:
        """Count a pod on a node."""
        self._nodes[uid] = node
        self._requests.setdefault(node, {})[uid] = requests

    def forget(self, uid: str) -> str:
        """Count a pod no more; return the node on which it was assumed, "": on none."""
        node = self._nodes.pop(uid, "")
        if node:
            del self._requests[node][uid]
            if not self._requests[node]:
                del self._requests[node]
        return node

    def requested(self, node: str) -> Resource:
        """Return what the assumed pods of a node request together."""
        total = NO_RESOURCES
        for requests in self._requests.get(node, {}).values():
            total = add_resources(total, requests)
        return total
