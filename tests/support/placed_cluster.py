"""A model cluster with nodes: the queue places, ungates and binds the pods of its Jobs. No scheduler runs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from support.model_cluster import NAMESPACE, ModelCluster
from zonewise_common.kube.resources import CLUSTER_QUEUES, JOBS, NODES, PODS, RESOURCE_FLAVORS, TOPOLOGIES
from zonewise_sandbox.apiserver.patches.json_patch import json_patch
from zonewise_sandbox.apiserver.pod_strategy import bind_pod
from zonewise_sandbox.apiserver.status_errors import StatusError
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.queue_annotations import BIND_ANNOTATION
from zonewise_scheduler.controller.writing.outcome import Outcome
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, CONTROLLER_UID
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.recording.planner_feed import NodeFeed

Json = dict[str, Any]

NODE_CPUS = 4


class PlacedCluster(ModelCluster):
    """A model cluster with nodes; the queue binds the pods."""

    def __init__(self, *, nodes: int = 2, **spec: Any) -> None:
        super().__init__(cpus=nodes * NODE_CPUS, **spec)
        self.create(TOPOLOGIES, "", "t", spec={"levels": [{"nodeLabel": HOSTNAME}]})
        self.change(ObjectKey(RESOURCE_FLAVORS, "", "f"), {"spec": {"topologyName": "t"}})
        self.change(ObjectKey(CLUSTER_QUEUES, "", "q"), {"metadata": {"annotations": {BIND_ANNOTATION: "true"}}})
        amounts = {"cpu": str(NODE_CPUS), "pods": "10"}
        ready = {"type": "Ready", "status": "True"}
        for i in range(nodes):
            labels = {HOSTNAME: f"n{i}", "flavor": "f"}
            status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
            self.create(NODES, "", f"n{i}", metadata={"labels": labels}, spec={}, status=status)

    def node_feed(self) -> NodeFeed | None:
        """Return the nodes for a new planner."""
        return ClusterNodes()

    def complete(self, key: ObjectKey) -> None:
        """End the run of a Job and its pods."""
        self.end_pods(key)
        super().complete(key)

    def end_pods(self, job: ObjectKey) -> None:
        """End the pods of a Job without updating the Job's status."""
        for pod in self.pods(job):
            self.change(pod, {"status": {"phase": "Succeeded"}})

    def active_cpus(self) -> int:
        """Return the CPUs of all running and terminating pods, without ended pods that no status counts yet."""
        ended = [job for job in self.jobs if self.jobs[job].job["status"].get("active") and self._have_ended(job)]
        cpus = [_cpus(self.jobs[job].job["spec"]["template"]) * len(self.pods(job)) for job in ended]
        return super().active_cpus() - sum(cpus)

    def _have_ended(self, job: ObjectKey) -> bool:
        phases = {self.get(pod)["status"]["phase"] for pod in self.pods(job)}
        return phases == {"Succeeded"}

    def pods(self, job: ObjectKey) -> list[ObjectKey]:
        return [key for key in self.objects if key.resource == PODS and key.name.startswith(f"{job.name}-")]

    def nodes_of(self, job: ObjectKey) -> list[str]:
        """Return the node of each pod of a Job; "" if the pod is not bound."""
        return [self.get(key)["spec"].get("nodeName", "") for key in self.pods(job)]

    def used_cpus(self) -> dict[str, int]:
        """Return the CPUs of active pods on each node."""
        used = dict[str, int]()
        for obj in [obj for key, obj in self.objects.items() if key.resource == PODS]:
            node = obj["spec"].get("nodeName")
            if node and obj["status"]["phase"] not in {"Succeeded", "Failed"}:
                used[node] = used.get(node, 0) + _cpus(obj)
        return used

    def sync_jobs(self) -> bool:
        """Run one step of the Job controller: create and delete the pods of Jobs."""
        changed = super().sync_jobs()
        for key in [key for key in self.objects if key.resource == JOBS and not self.is_finished(key)]:
            job, pods = self.get(key), self.pods(key)
            if job["spec"].get("suspend"):
                for pod in pods:
                    self.delete(pod)
                changed |= bool(pods)
            elif not pods:
                changed = True
                for i in range(job["spec"]["parallelism"]):
                    template = copy.deepcopy(job["spec"]["template"])
                    own = {CONTROLLER_UID: job["metadata"]["uid"], COMPLETION_INDEX: str(i)}
                    template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), **own}
                    self.create(PODS, NAMESPACE, f"{key.name}-{i}", **template, status={"phase": "Pending"})
        return changed

    def send(self, write: Write) -> Outcome:
        """Apply a write by the rules of an API server."""
        obj = self.objects.get(write.key)
        if write.key.resource != PODS or obj is None:
            return super().send(write)
        try:
            return self._send_to_pod(write, obj)
        except StatusError as error:
            return Outcome("stale", message=str(error))

    def _send_to_pod(self, write: Write, obj: Json) -> Outcome:
        if write.uid != obj["metadata"]["uid"]:
            return Outcome("stale", message="another UID")
        changed: Any
        if write.verb is Verb.CREATE:
            assert isinstance(write.body, dict)
            changed = bind_pod(obj, write.body, "2026-01-01T00:00:00Z")
        else:
            assert isinstance(write.body, list)
            changed = json_patch(obj, write.body)
        self._store(write.key, changed)
        return Outcome("done", self.objects[write.key])


def _cpus(template: Json) -> int:
    """Return the CPUs of a pod or a pod template."""
    (container,) = template["spec"]["containers"]
    return int(container["resources"]["requests"]["cpu"])
