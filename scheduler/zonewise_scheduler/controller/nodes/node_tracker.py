"""Track nodes, reports and pods, and report their changes to the planner in the format that tas.cluster_nodes reads.

The planner accounts for a pod if its workload has a placement, and the pod is on a node of that placement. All other
pods that are bound and not finished are usage of their node. This includes pods of workloads without a topology
(Kueue's pkg/cache/scheduler tas_non_tas_pod_cache.go). It also includes what a pod of a placement requests beyond its
pod set, for example after a resize in place. A pod event costs the work of one pod.

The key in the holdings of reports identifies a pod of the queue to the planner. In rare cases, two pods of a node share
a key. Then neither is named, and the planner counts these pods both in the report and as predicted.
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
        """Usage for which the planner does not account, by resource: milli-CPU, bytes, counts."""
        self.pods: dict[str, tuple[TrackedPod, ...]] = {}
        """All pods by key of nrt.holdings."""
        self.named_keys: set[str] = set()
        """Keys of the pods that were named to the planner."""


class NodeTracker:
    """Turns observed objects into changes for the planner. Not safe for concurrent use by several threads."""

    def __init__(self) -> None:
        self.health: dict[str, NodeHealth] = {}
        """Health by node; read-only."""
        self.health_revision = 0
        """Increases whenever the health of a node changes."""
        self._pods: dict[tuple[str, str], TrackedPod] = {}
        """Pods by namespace and name. Inactive pods, and unbound pods outside the queue, are omitted."""
        self._pods_by_workload: dict[str, set[tuple[str, str]]] = {}
        self._placements: dict[str, PlacedPodSets] = {}
        self._nodes: dict[str, _NodePods] = {}
        self._digests: dict[tuple[str, str], bytes] = {}
        """Digests of object contents, by field of the change and node."""
        self._contents: dict[tuple[str, str], str | None] = {}
        """Changed object contents, by field of the change and node."""
        self._changed_usage: set[str] = set()
        self._relieved: set[str] = set()
        self._changed_keys: dict[str, dict[str, bool]] = {}
        """Changed keys by node, each with whether its pod has ended."""
        self.revision = 0
        """Increases with each change that the planner is fed."""
        self.revisions: dict[str, int] = {}
        """Revision of the last change of each node that is not deleted; read-only."""

    # --- observations

    def observe_node(self, name: str, node: TrackedNode | None) -> None:
        """Record a Node; None: it was deleted."""
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
        """Record a NodeResourceTopology; None: it was deleted."""
        self._set_content("report", node, None if report is None else report.content)

    def observe_pod(self, namespace: str, name: str, pod: TrackedPod | None) -> TrackedPod | None:
        """Record a pod; None: it was deleted. Return its previous active state; None: it was not active, or is new."""
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

        Call this with each entry by which the planner adds, changes or removes a running workload.
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

    def bound_pods(self, workload: str) -> list[TrackedPod]:
        """Return the pods of a workload that are bound and have not finished."""
        return [pod for key in self._pods_by_workload.get(workload, ()) if (pod := self._pods[key]).node]

    def find_pod(self, namespace: str, name: str) -> TrackedPod | None:
        """Return an active pod that is bound or belongs to a workload; None: there is none."""
        return self._pods.get((namespace, name))

    def pods_of(self, workload: str) -> Iterable[tuple[str, str]]:
        """Return the namespaces and names of the active pods of a workload."""
        return self._pods_by_workload.get(workload, ())

    def counted_amounts(self, pod: TrackedPod) -> Mapping[str, int]:
        """Return what counts for a bound pod on its node, by resource.

        It is what the pod requests, or what the planner counts for the pods of its pod set.
        """
        placement = self._placements.get(pod.workload)
        requests = dict(amounts_by_resource(pod.requests or NO_RESOURCES))
        pod_set = None if placement is None else placed_pod_set(placement.nodes, pod.pod_set, pod.node)
        if placement is None or pod_set is None:
            return requests
        planned = placement.requests.get(pod_set, {})
        return {name: max(requests.get(name, 0), planned.get(name, 0)) for name in {*requests, *planned}}

    def take_changes(self) -> list[Json]:
        """Return the changes since the last call, one per node, sorted by name."""
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
        """Return the active pods on a node by their key in nrt.holdings."""
        known = self._nodes.get(node)
        return {} if known is None else dict(known.pods)

    def requested(self, node: str) -> Resource:
        """Return the sum of the requests of all pods on a node, including those of the queue."""
        known = self._nodes.get(node)
        return NO_RESOURCES if known is None else total_requests(known.pods)

    def take_relieved(self) -> set[str]:
        """Return the nodes whose changes since the last call may allow them to take more pods."""
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
        """Update the pods of workloads."""
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
        """Add a pod to its node or remove it; `ended`: its kubelet has reported its end."""
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
        """Return what a pod requests beyond the amounts that the planner counts for it, by resource."""
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
    """Return the sum of the requests of pods, which are grouped by any key."""
    total = NO_RESOURCES
    for same in pods.values():
        for pod in same:
            total = add_resources(total, pod.requests or NO_RESOURCES)
    return total
