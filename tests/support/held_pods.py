"""Pods that scheduling gates of the queue hold, and Workloads with topology assignments for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_sandbox.apiserver.patches.json_patch import json_patch
from zonewise_scheduler.controller.pods.managed_pod import ManagedPod, read_managed_pod
from zonewise_scheduler.controller.pods.node_pin import pin_to_node
from zonewise_scheduler.quota.topology.assignment_writer import write_topology_assignment
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write

Json = dict[str, Any]

INDEX = "batch.kubernetes.io/job-completion-index"
GATE = {"name": "kueue.x-k8s.io/topology"}


def held_pod(name: str, pod_set: str = "main", *, index: int | None = None, **spec: object) -> Json:
    """Return a pod of the Workload ns/w as its job's controller creates it."""
    labels = {"kueue.x-k8s.io/podset": pod_set} | ({} if index is None else {INDEX: str(index)})
    annotations = {"kueue.x-k8s.io/workload": "w"}
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"u-{name}", "labels": labels, "annotations": annotations},
        "spec": {"schedulingGates": [GATE], "containers": [{"name": "c", "image": "i"}], **spec},
        "status": {"phase": "Pending"},
    }


def pinned(pod: Json, node: str) -> Json:
    """Return a held pod after the queue has ungated it for a node; "": without a node. The pod keeps its own gates."""
    spec: Json = {**pod["spec"], "schedulingGates": [gate for gate in pod["spec"]["schedulingGates"] if gate != GATE]}
    affinity = pin_to_node(spec.get("affinity") or {}, node) if node else spec.get("affinity")
    return {**pod, "spec": {**spec, "affinity": affinity}}


def managed(pod: Json) -> ManagedPod:
    """Return a Workload's pod as the controller's cache has it."""
    result = read_managed_pod(pod)
    assert result is not None
    return result


def assigned_workload(
    domains: dict[str, int], *, level: str = HOSTNAME, indexed: bool = True, pods: int | None = None
) -> Json:
    """Return an admitted Workload with one pod set; `domains`: the number of pods by domain value."""
    values = tuple(TopologyDomainAssignment((value,), count) for value, count in domains.items())
    assignment = write_topology_assignment(TopologyAssignment((level,), values))
    request = {"podIndexLabel": INDEX} if indexed else {}
    count = sum(domains.values()) if pods is None else pods
    return {
        "metadata": {"namespace": "ns", "name": "w", "uid": "u-w"},
        "spec": {"podSets": [{"name": "main", "count": count, "topologyRequest": request}]},
        "status": {
            "admission": {"podSetAssignments": [{"name": "main", "count": count, "topologyAssignment": assignment}]},
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for kind in ("QuotaReserved", "Admitted")
            ],
        },
    }


def patched(pod: Json, write: Write) -> Json:
    """Return a pod after a JSON patch."""
    body: Any = write.body
    result: Any = json_patch(pod, body)
    return result
