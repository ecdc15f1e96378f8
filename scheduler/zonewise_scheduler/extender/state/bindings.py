"""Pods that are being bound: the requested bindings, and the resources that unbound pods reserve.

The requests and host ports of a pod count on the node as a whole as soon as the pod is assumed. They cease to count
when the pod is forgotten or gone, and after the ledger's assume timeout, unless they are held for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.filters.filter_plugins import node_ports, node_resources_fit
from zonewise_scheduler.nodes.node.node_info import PodInfo, remove_missing_extended_resources
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from zonewise_scheduler.extender.state.node_infos import NodeInfos
    from zonewise_scheduler.nodes.assumed.ledger import Ledger
    from zonewise_scheduler.nodes.assumed.types import PendingPod
    from zonewise_scheduler.nodes.filters.constraints import Constraints


class Bindings:
    """See the module. The caller holds the lock of the parts. Times are seconds of one clock."""

    def __init__(self, ledger: Ledger, infos: NodeInfos, timeout: float) -> None:
        """`timeout`: seconds after which an unbound pod no longer reserves anything."""
        self._ledger = ledger
        self._infos = infos
        self._timeout = timeout
        self._reserved: dict[str, float] = {}  # by UID: when the requests of a pod that is not bound yet expire
        self.requested: dict[str, str] = {}
        """Nodes, by UID, of the placed pods whose binding has been requested but not observed yet."""

    def confirm(self, pod: PendingPod, node: str) -> None:
        """Record that the API server has bound a pod.

        Nothing is recorded if an event has already shown the binding, or has shown that the pod is gone.
        """
        if self.requested.get(pod.uid) == node:
            self._ledger.confirm_binding(pod, node)

    def node(self, uid: str) -> str:
        """Return the node to which a pod is bound, or to which its binding has been requested; "" if there is none."""
        return self.requested.get(uid) or self._ledger.bound_node(uid) or ""

    def insufficient(self, uid: str, constraints: Constraints, node: str) -> str | None:
        """Return why a node has too little left for a pod; None also if the node's amounts are unknown.

        The node has passed the filters of kube-scheduler or ours. So an extended resource that it lacks does not count.
        """
        info = self._infos.get(node)
        if info is None or info.allocatable == NO_RESOURCES or self._infos.node_of(uid) == node:
            return None
        requests = remove_missing_extended_resources(constraints.requests, info)
        return node_resources_fit(constraints._replace(requests=requests), info) or node_ports(constraints, info)

    def reserve(self, uid: str, constraints: Constraints, node: str, at: float) -> None:
        """Count the requests and host ports of an unbound pod on a node."""
        self._infos.set_pod(uid, node, PodInfo(constraints.requests, constraints.ports))
        self._reserved[uid] = at + self._timeout

    def hold(self, uid: str, until: float) -> None:
        """Let the reserved amounts of an unbound pod, if any, expire no earlier than this."""
        if uid in self._reserved:
            self._reserved[uid] = max(self._reserved[uid], until)

    def observe_bound(self, uid: str, node: str, info: PodInfo) -> None:
        """Count the requests and host ports of a bound pod on its node, whatever it had reserved."""
        self._reserved.pop(uid, None)
        self._infos.set_pod(uid, node, info)

    def release(self, uid: str) -> None:
        """Release the reserved amounts of an unbound pod, if any."""
        if self._reserved.pop(uid, None) is not None:
            self._infos.remove_pod(uid)

    def remove(self, uid: str) -> None:
        """Remove a pod that is gone or no longer runs: none of its amounts count."""
        self._reserved.pop(uid, None)
        self._infos.remove_pod(uid)

    def expire(self, at: float) -> None:
        """Release the amounts that have been reserved for too long."""
        for uid in [uid for uid, expires_at in self._reserved.items() if expires_at <= at]:
            self.release(uid)
