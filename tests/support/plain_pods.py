"""A small model for jobs of plain pods: an API server of pods and one Workload, which applies writes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from support.held_pods import patched
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_scheduler.controller.reconcile.job import JobContext
from zonewise_scheduler.controller.reconcile.plain_pods import PlainPodsState, next_plain_writes
from zonewise_scheduler.controller.types import Verb, Write
from zonewise_scheduler.controller.workloads.conditions import Condition, is_true, with_conditions
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions
from zonewise_scheduler.controller.workloads.status import EvictionCause, evict

if TYPE_CHECKING:
    from zonewise_scheduler.controller.pods.group_owner import GroupOwner

Json = dict[str, Any]

NOW = 1_800_000_000.0
PREEMPTION = EvictionCause("Preempted", "Preempted to accommodate w2", "", "InClusterQueue")
FLAVORS: Json = {"default": {"metadata": {"name": "default"}, "spec": {"nodeLabels": {"pool": "batch"}}}}


def queued_pod(name: str, *, group: str = "g", total: int = 2, cpu: str = "1", **annotations: str) -> Json:
    """Return a pod as the webhook changes it; it belongs to a group unless `group` is ""."""
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/managed": "true"}
    if group:
        labels["kueue.x-k8s.io/pod-group-name"] = group
        annotations = {"kueue.x-k8s.io/pod-group-total-count": str(total), **annotations}
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": f"u-{name}",
            "labels": labels,
            "annotations": annotations,
            "finalizers": ["kueue.x-k8s.io/managed"],
        },
        "spec": {"schedulingGates": gates, "containers": [container]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
    }


class PlainPodsWorld:
    """The API server's state of the pods and the Workload."""

    def __init__(self, *pods: Json, group: GroupOwner | None = None) -> None:
        self.pods: dict[str, Json] = {}
        self.workload: Json | None = None
        self.group = group
        self.serial = 0
        self.now = NOW
        for pod in pods:
            self.create(pod)

    # --- actions of users, kubelets and the planner

    def create(self, pod: Json) -> None:
        """Create a pod, one second after the last one."""
        self.serial += 1
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:{self.serial // 60:02}:{self.serial % 60:02}Z"
        self.pods[pod["metadata"]["name"]] = pod

    def delete(self, name: str) -> None:
        """Delete a pod; it disappears once it has no finalizer and has terminated."""
        self.pods[name]["metadata"].setdefault("deletionTimestamp", "2027-01-15T08:00:00Z")
        self.collect()

    def run(self, name: str) -> None:
        """Bind and run a pod that has no gate."""
        self.pods[name]["spec"]["nodeName"] = "n"
        self.end(name, "Running")
        self.pods[name]["status"]["conditions"].append({"type": "Ready", "status": "True"})

    def end(self, name: str, phase: str) -> None:
        """Set the phase of a pod."""
        self.pods[name]["status"]["phase"] = phase
        self.collect()

    def admit(self) -> None:
        """Give the Workload quota for all its pods."""
        assert self.workload is not None
        assignments = [
            {"name": entry["name"], "flavors": {"cpu": "default"}, "count": entry["count"]}
            for entry in self.workload["spec"]["podSets"]
        ]
        changes = [Condition(name, holds=True, reason="x") for name in ("QuotaReserved", "Admitted")]
        changes.append(Condition("Evicted", holds=False, reason="x"))
        status = {"admission": {"podSetAssignments": assignments}}
        self.workload["status"] = {**status, "conditions": with_conditions(self.workload, changes, NOW)}

    def evict(self) -> None:
        """Remove the Workload's quota once its pods have stopped."""
        assert self.workload is not None
        self.patch_workload(evict(self.workload, PREEMPTION, NOW))

    # --- the controller

    def writes(self) -> list[Write]:
        """Return the next writes."""
        name = "g" if self.group is not None or _is_group(next(iter(self.pods.values()))) else ""
        state = PlainPodsState("ns", name, list(self.pods.values()), self.workload, self.group)
        return next_plain_writes(copy.deepcopy(state), JobContext(ManifestOptions(), FLAVORS, self.now))

    def purposes(self) -> list[str]:
        """Return the purposes of the next writes, each with the name of its object."""
        return [f"{write.purpose}: {write.key.name}" for write in self.writes()]

    def settle(self, limit: int = 50) -> None:
        """Apply writes until there are none."""
        for _ in range(limit):
            writes = self.writes() if self.pods else []
            if not writes:
                return
            for write in writes:
                self.apply(write)
        raise AssertionError(f"there is no end of writes: {self.purposes()}")

    def apply(self, write: Write) -> None:
        """Apply a write unless its object no longer exists."""
        if write.key.resource.kind == "Workload":
            self._apply_to_workload(write)
            return
        pod = self.pods.get(write.key.name)
        if pod is None or pod["metadata"]["uid"] != write.uid:
            return
        if write.verb is Verb.DELETE:
            self.delete(write.key.name)
        else:
            self.pods[write.key.name] = patched(pod, write)
            self.collect()

    def _apply_to_workload(self, write: Write) -> None:
        if write.verb is Verb.CREATE:
            body: Any = write.body
            self.workload = {**copy.deepcopy(body), "status": {}}
            self.workload["metadata"]["uid"] = f"u-{write.key.name}"
        elif write.verb is Verb.DELETE:
            self.workload = None
        else:
            self.patch_workload(write.body)

    def patch_workload(self, body: object) -> None:
        """Apply a merge patch to the Workload."""
        target: Any = copy.deepcopy(self.workload)
        patch: Any = copy.deepcopy(body)
        result: Any = merge_patch(target, patch)
        self.workload = result

    def collect(self) -> None:
        """Remove deleted pods that have no finalizer and do not run."""
        for name, pod in list(self.pods.items()):
            metadata, is_bound = pod["metadata"], "nodeName" in pod["spec"]
            ended = pod["status"]["phase"] in {"Succeeded", "Failed"}
            if "deletionTimestamp" in metadata and not metadata.get("finalizers") and (ended or not is_bound):
                del self.pods[name]

    # --- observations

    def started(self) -> set[str]:
        """Return the pods that no admission gate holds."""
        gate = {"name": "kueue.x-k8s.io/admission"}
        return {name for name, pod in self.pods.items() if gate not in pod["spec"]["schedulingGates"]}

    def holds(self, condition: str) -> bool:
        """Return whether a condition of the Workload is true."""
        return self.workload is not None and is_true(self.workload, condition)


def _is_group(pod: Json) -> bool:
    return "kueue.x-k8s.io/pod-group-name" in pod["metadata"]["labels"]
