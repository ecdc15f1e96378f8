"""Ungate the pods of an admitted workload to their domains (KEP-2724; topology_ungater.go).

A pod is ungated as late as possible, since its pin cannot be changed. It does not wait for other pod sets, whose pods
may be created later. Examples are a JobSet with `dependsOn`, the submitter of a RayJob, or the launcher of an MPIJob.

| Workload                                    | its held pods                                                     |
|---------------------------------------------|-------------------------------------------------------------------|
| not Admitted, Evicted or Finished           | remain held                                                       |
| a pod set without topology assignment       | remain held, but an elastic job's pods are ungated up to its size |
| whole gangs are required, and the pod set   | remain held, unless pods of the workload already run              |
| lacks a pod                                 |                                                                   |
| the same, in a set that may create its next | are ungated                                                       |
| pod once the previous one is ready          |                                                                   |
| the domain's node is unhealthy or unknown   | remain held: the planner replaces the domain                      |
| the gang avoids the node and has no pod there | remain held: the node becomes unhealthy (pod_reconciler.py)     |
| the node is cordoned, tainted or not Ready  | remain held: it becomes unhealthy once none of them runs there    |
| others must arrive at the node first        | remain held, for a limited time (arrival_gate.py)                 |
| otherwise                                   | are ungated if their domain still lacks pods (domains.py)         |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.pod_annotations import LEFT_TO_KUBE_SCHEDULER, PREDICTED_ADMISSION
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.controller.pods.domains import DomainAssigner
from zonewise_scheduler.controller.pods.node_pin import NodePin
from zonewise_scheduler.controller.pods.pod_names import (
    PLACEMENT_GATES,
    POD_INDEX_LABEL,
    TOPOLOGY_GATE,
    WORKER_INDEX_LABEL,
)
from zonewise_scheduler.controller.pods.pod_patch import remove_gates, set_pairs, set_value
from zonewise_scheduler.controller.pods.ranks import RankLabels, read_ranks
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.admission_checks import pod_set_updates
from zonewise_scheduler.controller.workloads.conditions import condition_time
from zonewise_scheduler.controller.workloads.manifest import is_orphaned
from zonewise_scheduler.controller.workloads.status import may_run
from zonewise_scheduler.quota.api.job_pod_sets import PodIndexes
from zonewise_scheduler.quota.api.workload_slices import ELASTIC_GATE
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment
from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.quota.topology.types import TopologyAssignment

Json = dict[str, Any]

UNGATE = "ungate"
"""Purpose of the writes of this module."""


class UngateContext(NamedTuple):
    """The inputs on which the ungating of all workloads depends."""

    node_names: Mapping[str, str]
    """Names of nodes by their label kubernetes.io/hostname. Pods of a hostname without a node remain held."""
    whole_gangs: bool = True
    """Whether no pod is ungated before all pods of its pod set exist."""


class Ungating(NamedTuple):
    """A pod to ungate, and its pin."""

    pod: ManagedPod
    pin: NodePin
    predicted_admission: str = ""
    """What the kubelet is predicted to assign; "": unknown."""
    left_to_kube_scheduler: str = ""
    """Why the controller does not bind the pod as its queue requests; "": no request, or no field prevents it."""
    annotations: Mapping[str, str] = {}
    """Annotations that the admission checks of a slice add."""

    @property
    def pod_after(self) -> ManagedPod:
        """Return the pod as it will be."""
        selector, affinity = self.pin.pinned(self.pod)
        gates = tuple(gate for gate in self.pod.gates if gate not in PLACEMENT_GATES)
        return msgspec.structs.replace(
            self.pod,
            gates=gates,
            node_selector=selector,
            affinity=affinity,
            predicted_admission=self.predicted_admission,
        )


class _AssignedPodSet(NamedTuple):
    name: str
    pods: int
    assignment: TopologyAssignment
    ranks: RankLabels


def find_ungatings(workload: Json, pods: Sequence[ManagedPod], context: UngateContext) -> list[Ungating]:
    """Return the pods of a Workload to ungate now. Raises FieldError for an invalid admission.

    If the job was deleted without its dependents before a pod started, none starts: some may never be created.
    `pods`: all pods whose annotation names the Workload; those being ungated count as ungated (ManagedPods).
    """
    if not may_run(workload) or (is_orphaned(workload) and not any(pod.is_active for pod in pods)):
        return []
    pod_sets = _assigned_pod_sets(workload)
    if context.whole_gangs and not _has_run(workload, pods):
        pod_sets = [pod_set for pod_set in pod_sets if _is_whole(workload, pods, pod_set)]
    unhealthy = _unhealthy_nodes(workload)
    return _unplaced_ungatings(workload, pods) + [
        ungating
        for pod_set in pod_sets
        for ungating in _ungatings(
            pod_set, [pod for pod in pods if pod.pod_set == pod_set.name], context.node_names, unhealthy
        )
    ]


def assigned_nodes(workload: Json, node_names: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return by pod set the healthy nodes that its topology assignment names.

    A pod set whose lowest level is above nodes is left out. Raises FieldError for an invalid admission.
    """
    unhealthy = _unhealthy_nodes(workload)
    pins = {
        pod_set.name: [
            (_pin(pod_set.assignment.levels, domain.values, node_names), domain.values[-1])
            for domain in pod_set.assignment.domains
        ]
        for pod_set in _assigned_pod_sets(workload)
        if pod_set.assignment.levels[-1] == HOSTNAME
    }
    return {
        name: frozenset(
            pin.node for pin, hostname in of_pod_set if pin is not None and unhealthy.isdisjoint((pin.node, hostname))
        )
        for name, of_pod_set in pins.items()
    }


def ungate_write(ungating: Ungating) -> Write:
    """Return the single patch that pins and annotates a pod, and removes its gate."""
    pod = ungating.pod
    annotations = {
        PREDICTED_ADMISSION: ungating.predicted_admission,
        LEFT_TO_KUBE_SCHEDULER: ungating.left_to_kube_scheduler,
    }
    annotations = {name: text for name, text in annotations.items() if text} | dict(ungating.annotations)
    operations = [
        *set_pairs("/spec/nodeSelector", pod.node_selector, ungating.pin.labels),
        *set_value("/spec/affinity", pod.affinity, ungating.pod_after.affinity),
        *set_pairs("/metadata/annotations", {"": ""}, annotations),
        *remove_gates(pod.gates, PLACEMENT_GATES),
    ]
    key = ObjectKey(PODS, pod.namespace, pod.name)
    return Write(Verb.JSON_PATCH, key, UNGATE, operations, uid=pod.uid, workload=pod.workload_key)


def _unplaced_ungatings(workload: Json, pods: Sequence[ManagedPod]) -> list[Ungating]:
    """Return the pods that only the gate of their slice holds, as many as it covers (elastic_job_ungater.go).

    Pods of the job that are not held count first, whatever slice started them.
    """
    ungatings: list[Ungating] = []
    for reader in FieldReader(workload, "", []).child("spec").children("podSets"):
        name = reader.text("name", "main")
        active = [pod for pod in pods if pod.pod_set == name and not pod.is_terminated]
        held = [pod for pod in active if ELASTIC_GATE in pod.gates]
        room = (reader.count("count", 1) or 0) - (len(active) - len(held))
        waiting = sorted((pod for pod in held if not pod.terminating), key=lambda pod: pod.name)
        pin = NodePin(labels=_updates(workload, name, "nodeSelector"))
        annotations = _updates(workload, name, "annotations")
        ungatings += [
            Ungating(pod, pin, annotations=annotations)
            for pod in waiting[: max(0, room)]
            if TOPOLOGY_GATE not in pod.gates and _allows(pod, pin.labels)
        ]
    return ungatings


def _updates(workload: Json, pod_set: str, field: str) -> dict[str, str]:
    """Return what the admission checks of a slice add to pods. Their template has what those of the first slice add."""
    updates: list[Json] = [update.get(field) or {} for update in pod_set_updates(workload, pod_set)]
    return {key: value for update in updates for key, value in update.items()}


def _allows(pod: ManagedPod, labels: Mapping[str, str]) -> bool:
    """Return whether labels can be added to the node selector of a pod: the API server lets no other value replace one.

    If not, the pod remains held until the Job controller recreates it (elastic_job_ungater.go podAdmissionCompatible).
    """
    return all(pod.node_selector.get(key, value) == value for key, value in labels.items())


def _assigned_pod_sets(workload: Json) -> list[_AssignedPodSet]:
    """Return the pod sets with a topology assignment."""
    reader = FieldReader(workload, "", [])
    requests = {
        item.text("name", "main"): item.child("topologyRequest") for item in reader.child("spec").children("podSets")
    }
    admission = reader.child("status").child("admission")
    counts = {
        item.text("name", "main"): item.count("count", 0) or 0 for item in admission.children("podSetAssignments")
    }
    assigned: list[_AssignedPodSet] = []
    for item in admission.children("podSetAssignments"):
        name = item.text("name", "main")
        if item.has("topologyAssignment"):
            assignment = read_topology_assignment(item.child("topologyAssignment").obj)
            pods = counts[name] or assignment.pod_count
            labels = RankLabels(_indexes(requests.get(name)), pods, _rank_offset(name, requests, counts))
            assigned.append(_AssignedPodSet(name, pods, assignment, labels))
    return assigned


def _indexes(request: FieldReader | None) -> PodIndexes:
    if request is None:
        return PodIndexes()
    return PodIndexes(request.text("podIndexLabel"), request.text("subGroupIndexLabel"), request.count("subGroupCount"))


def _rank_offset(name: str, requests: Mapping[str, FieldReader], counts: Mapping[str, int]) -> int:
    """Return the rank offset of a pod set: the size of the smaller one in its group, since the leader has rank 0."""
    group = requests[name].text("podSetGroupName") if name in requests else ""
    members = [other for other, request in requests.items() if group and request.text("podSetGroupName") == group]
    smallest = min(members, key=lambda other: counts.get(other, 0), default=name)
    return 0 if smallest == name else counts.get(smallest, 0)


def _has_run(workload: Json, pods: Sequence[ManagedPod]) -> bool:
    """Return whether pods of the gang run or have run since its admission, so that held pods are replacements."""
    admitted_at = condition_time(workload, "Admitted") or 0.0
    return any(not pod.is_held and (not pod.is_terminated or pod.created >= admitted_at) for pod in pods)


def _is_whole(workload: Json, pods: Sequence[ManagedPod], pod_set: _AssignedPodSet) -> bool:
    """Return whether all pods of a pod set exist, or are created one after another.

    A StatefulSet may create each pod only once the previous one is ready. With `startupPolicy: LeaderReady`, a
    LeaderWorkerSet does so for the workers, which may share the pod set of the leader.
    """
    if pod_set.ranks.indexes.pod_index_label in {POD_INDEX_LABEL, WORKER_INDEX_LABEL}:
        return True
    reclaimable = FieldReader(workload, "", []).child("status").children("reclaimablePods")
    ended = sum(item.count("count", 0) or 0 for item in reclaimable if item.text("name") == pod_set.name)
    present = sum(pod.pod_set == pod_set.name and not pod.is_terminated and not pod.terminating for pod in pods)
    return present >= pod_set.pods - ended


def _unhealthy_nodes(workload: Json) -> frozenset[str]:
    nodes = FieldReader(workload, "", []).child("status").children("unhealthyNodes")
    return frozenset(node.text("name") for node in nodes)


def _ungatings(
    pod_set: _AssignedPodSet, pods: Sequence[ManagedPod], node_names: Mapping[str, str], unhealthy: frozenset[str]
) -> list[Ungating]:
    assignment = pod_set.assignment
    pins = [_pin(assignment.levels, domain.values, node_names) for domain in assignment.domains]
    unavailable = {
        index
        for index, (pin, domain) in enumerate(zip(pins, assignment.domains, strict=True))
        if pin is None or not unhealthy.isdisjoint((pin.node, domain.values[-1]))
    }
    active = [pod for pod in pods if not pod.is_terminated]
    assigner = DomainAssigner(assignment, node_names, unavailable)
    assigned = assigner.assign(active, read_ranks(active, pod_set.ranks))
    return [Ungating(pod, pin) for pod, index in assigned if (pin := pins[index]) is not None]


def _pin(levels: Sequence[str], values: Sequence[str], node_names: Mapping[str, str]) -> NodePin | None:
    """Return the pin of a domain; None: its node does not exist."""
    if levels[-1] != HOSTNAME:
        return NodePin(labels=dict(zip(levels, values, strict=True)))
    node = node_names.get(values[-1])
    return None if node is None else NodePin(node)
