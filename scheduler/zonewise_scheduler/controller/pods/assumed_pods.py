"""Pods that already count on their nodes: their Binding is being written, or was written but not yet observed.

| event | the pod |
|---|---|
| its Binding is written | is assumed on its node |
| the Binding fails, since another client has bound the pod or it was deleted | is forgotten |
| it is observed on a node, or has ended, or was deleted | is forgotten: the observation counts |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.node.node_info import add_resources
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Resource


class AssumedPods:
    """Keeps the assumed pods by node. See the module docstring."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        """Node of each assumed pod, by UID."""
        self._requests: dict[str, dict[str, Resource]] = {}
        """Requests of each assumed pod, by node and UID."""

    def __contains__(self, uid: str) -> bool:
        """Return whether a pod is assumed."""
        return uid in self._nodes

    def assume(self, uid: str, node: str, requests: Resource) -> None:
        """Count a pod on a node."""
        self._nodes[uid] = node
        self._requests.setdefault(node, {})[uid] = requests

    def forget(self, uid: str) -> str:
        """Stop counting a pod, and return the node on which it was assumed; "": on none."""
        node = self._nodes.pop(uid, "")
        if node:
            del self._requests[node][uid]
            if not self._requests[node]:
                del self._requests[node]
        return node

    def requested(self, node: str) -> Resource:
        """Return the sum of the requests of a node's assumed pods."""
        total = NO_RESOURCES
        for requests in self._requests.get(node, {}).values():
            total = add_resources(total, requests)
        return total
