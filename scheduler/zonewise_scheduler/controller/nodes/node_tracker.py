"""What the planner must know of observed nodes, reports and pods, as the changes that tas.cluster_nodes reads.

The planner accounts for a pod if its workload has a placement, and the pod is on a node of it. All other pods that are
bound and not finished are usage of their node, also those of workloads without a topology (Kueue's pkg/cache/scheduler
tas_non_tas_pod_cache.go). So is what a pod of a placement requests beyond its pod set, for example after a resize in
place. A pod event costs the work of one pod.

A pod of the queue is named to the planner by its key in the holdings of reports. Two pods of a node may share a key,
but rarely do. Neither is then named, and the planner counts these pods in the report and as predicted.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from zonewise_common.nrt.holdings import holdings_key
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import PODS
from zonewise_scheduler.controller.nodes.placements import placed_pod_set
from zonewise_scheduler.nodes.node.node_info import add_resources
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.controller.nodes.placements import PlacedPodSets
    from zonewise_scheduler.controller.nodes.types import NodeHealth, TrackedNode, TrackedPod, TrackedReport
    from zonewise_scheduler.controller.types import Json

_DIGEST_SIZE = 16


class _NodePods:
    """The active pods that are bound to one node."""

    __slots__ = ("named_keys", "pods", "usage")

    def __init__(self) -> None:
        self.usage: dict[str, int] = {}
        """What the planner does not account for, by resource: milli-CPU, bytes, counts."""
        self.pods: dict[str, tuple[TrackedPod, ...]] = {}
        """All pods by key of nrt.holdings."""
        self.named_keys: set[str] = set()
        """Keys of the pods that the planner has been told of."""


class NodeTracker:
    """Observed objects in, changes out. Not safe for use by several threads at once."""

    def __init__(self) -> None:
        self.health: dict[str, NodeHealth] = {}
        """By node; read-only."""
        self.health_revision = 0
        """Increases whenever the health of a node changes."""
        self._pods: dict[tuple[str, str], TrackedPod] = {}
        """By namespace and name, without inactive ones and unbound ones outside the queue."""
        self._pods_by_workload: dict[str, set[tuple[str, str]]] = {}
        self._placements: dict[str, PlacedPodSets] = {}
        self._nodes: dict[str, _NodePods] = {}
        self._digests: dict[tuple[str, str], bytes] = {}
        """Of the content of objects, by field of the change and node."""
        self._contents: dict[tuple[str, str], str | None] = {}
        """Changed contents, by the same."""
        self._changed_usage: set[str] = set()
        self._relieved: set[str] = set()
        self._changed_keys: dict[str, dict[str, bool]] = {}
        """By node and key: whether its pod has ended."""
        self.revision = 0
        """Increases with each change that the planner gets."""
        self.revisions: dict[str, int] = {}
        """The revision of the last change of each node that is not deleted; read-only."""

    # --- observations

    def observe_node(self, name: str, node: TrackedNode | None) -> None:
        """Use a Node; None: it is deleted."""
        self._set_content("object", name, None if node is None else node.content)
        health = None if node is None else node.health
        if health == self.health.get(name):
            return
        self.health_revision += 1
        if health is None:
            del self.health[name]
        else:
            self.health[name] = health

    def observe_report(self, node: str, report: TrackedReport | None) -> None:
        """Use a NodeResourceTopology; None: it is deleted."""
        self._set_content("report", node, None if report is None else report.content)

    def observe_pod(self, namespace: str, name: str, pod: TrackedPod | None) -> TrackedPod | None:
        """Use a pod; None: it is deleted. Return its active state before; None: it was not active, or is new."""
        key = namespace, name
        before = self._pods.get(key)
        if before is not None and before == pod:
            return before
        if before is not None:
            ended = pod is not None and not pod.active
            self._count(before, -1, ended=ended)
            del self._pods[key]
        if pod is not None and pod.active and (pod.node or pod.workload):
            self._pods[key] = pod
            self._count(pod, 1)
        self._index(key, before, self._pods.get(key))
        return before

    def set_placement(self, workload: str, placement: PlacedPodSets | None) -> None:
        """Set where a workload with quota is placed; None: the planner has no placement.

        To be called with each entry by which the planner adds, changes or removes a running workload.
        """
        if self._placements.get(workload) == placement:
            return
        pods = [self._pods[key] for key in sorted(self._pods_by_workload.get(workload, ()))]
        for pod in pods:
            self._count(pod, -1)
        if placement is None:
            del self._placements[workload]
        else:
            self._placements[workload] = placement
        for pod in pods:
            self._count(pod, 1)

    # --- results

    def active_pods(self, workload: str) -> int:
        """Return the number of pods of a workload that have not finished, bound or not."""
        return len(self._pods_by_workload.get(workload, ()))

    def take_changes(self) -> list[Json]:
        """Return the changes since the last call, one for each node, by name."""
        changes: dict[str, Json] = {}
        for (field, node), content in self._contents.items():
            changes.setdefault(node, {"node": node})[field] = content
        for node in self._changed_usage:
            usage = self._nodes[node].usage
            change = changes.setdefault(node, {"node": node})
            change["usage"] = {name: usage[name] for name in sorted(usage) if name != PODS and usage[name]}
            change["pods"] = usage.get(PODS, 0)
        for node in self._changed_keys:
            queue_pods = self._take_queue_pods(node)
            if queue_pods:
                changes.setdefault(node, {"node": node})["queuePods"] = queue_pods
        for node in self._changed_usage | self._changed_keys.keys():
            if not self._nodes[node].pods:
                del self._nodes[node]
        self._note_revisions({*changes, *self._changed_usage, *self._changed_keys})
        self._contents, self._changed_usage, self._changed_keys = {}, set(), {}
        return [changes[node] for node in sorted(changes)]

    def pods_by_key(self, node: str) -> dict[str, tuple[TrackedPod, ...]]:
        """Return the active pods on a node by key of nrt.holdings."""
        known = self._nodes.get(node)
        return {} if known is None else dict(known.pods)

    def requested(self, node: str) -> Resource:
        """Return what all pods on a node request together, those of the queue included."""
        known = self._nodes.get(node)
        return NO_RESOURCES if known is None else total_requests(known.pods)

    def take_relieved(self) -> set[str]:
        """Return the nodes that have changed since the last call so that they may take more pods."""
        relieved, self._relieved = self._relieved, set()
        return relieved

    # --- parts

    def _note_revisions(self, nodes: set[str]) -> None:
        self.revision += bool(nodes)
        for node in nodes:
            if node in self.health:
                self.revisions[node] = self.revision
            else:
                self.revisions.pop(node, None)

    def _set_content(self, field: str, node: str, content: str | None) -> None:
        key = field, node
        self._relieved.add(node)
        digest = None if content is None else blake2b(content.encode(), digest_size=_DIGEST_SIZE).digest()
        if self._digests.get(key) == digest:
            return
        self._contents[key] = content
        if digest is None:
            del self._digests[key]
        else:
            self._digests[key] = digest

    def _index(self, key: tuple[str, str], before: TrackedPod | None, after: TrackedPod | None) -> None:
        """Keep the pods of workloads up to date."""
        old, new = (pod.workload if pod is not None else "" for pod in (before, after))
        if old == new:
            return
        if old:
            self._pods_by_workload[old].discard(key)
            if not self._pods_by_workload[old]:
                del self._pods_by_workload[old]
        if new:
            self._pods_by_workload.setdefault(new, set()).add(key)

    def _count(self, pod: TrackedPod, sign: int, *, ended: bool = False) -> None:
        """Add or remove a pod of its node; `ended`: its kubelet has said so."""
        if not pod.node or pod.requests is None:
            return
        node = self._nodes.get(pod.node)
        if node is None:
            node = self._nodes[pod.node] = _NodePods()
        key = holdings_key(pod.namespace, pod.name)
        if sign < 0:
            self._relieved.add(pod.node)
        others = tuple(other for other in node.pods.get(key, ()) if other is not pod)
        node.pods[key] = (*others, pod) if sign > 0 else others
        if not node.pods[key]:
            del node.pods[key]
        if self._is_accounted(pod) or others or key in node.named_keys:
            self._changed_keys.setdefault(pod.node, {})[key] = ended
        for name, amount in self._unaccounted(pod, pod.requests).items():
            self._changed_usage.add(pod.node)
            node.usage[name] = node.usage.get(name, 0) + sign * amount

    def _is_accounted(self, pod: TrackedPod) -> bool:
        placement = self._placements.get(pod.workload)
        return placement is not None and placed_pod_set(placement.nodes, pod.pod_set, pod.node) is not None

    def _unaccounted(self, pod: TrackedPod, requests: Resource) -> dict[str, int]:
        """Return what a pod requests beyond what the planner counts for it, by resource."""
        amounts = dict(amounts_by_resource(requests))
        placement = self._placements.get(pod.workload)
        pod_set = None if placement is None else placed_pod_set(placement.nodes, pod.pod_set, pod.node)
        if placement is None or pod_set is None:
            return amounts
        del amounts[PODS]
        counted = placement.requests.get(pod_set, amounts)
        beyond = {name: amount - counted.get(name, 0) for name, amount in amounts.items()}
        return {name: amount for name, amount in beyond.items() if amount > 0}

    def _take_queue_pods(self, name: str) -> Mapping[str, Json | None]:
        """Return the field queuePods of a node."""
        node, queue_pods = self._nodes[name], dict[str, "Json | None"]()
        for key, ended in sorted(self._changed_keys[name].items()):
            pods = node.pods.get(key, ())
            if len(pods) == 1 and self._is_accounted(pods[0]):
                queue_pods[key] = {"workload": pods[0].workload, "podSet": pods[0].pod_set}
                node.named_keys.add(key)
            elif key in node.named_keys:
                node.named_keys.discard(key)
                gone: Json = {"gone": True, "ended": True} if ended else {"gone": True}
                queue_pods[key] = None if pods else gone
        return queue_pods


def total_requests(pods: Mapping[str, Iterable[TrackedPod]]) -> Resource:
    """Return what pods request together; `pods`: by any key."""
    total = NO_RESOURCES
    for same in pods.values():
        for pod in same:
            total = add_resources(total, pod.requests or NO_RESOURCES)
    return total
