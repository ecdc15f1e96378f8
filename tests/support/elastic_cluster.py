"""A model cluster with elastic Jobs: the Job controller creates and deletes pods as a Job changes its size."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from support.model_cluster import NAMESPACE
from support.placed_cluster import PlacedCluster
from zonewise_common.kube.resources import JOBS, PODS, RESOURCE_FLAVORS
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.job_pod_sets import COMPLETION_INDEX, CONTROLLER_UID

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.recording.planner_feed import NodeFeed
    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

Json = dict[str, Any]

ELASTIC = "kueue.x-k8s.io/elastic-job"


class ElasticCluster(PlacedCluster):
    """A model cluster with elastic Jobs, whose pods have one CPU each."""

    def __init__(self, *, is_placed: bool = False, nodes: int = 2, **spec: Any) -> None:
        """`is_placed`: the queue chooses the nodes of pods; otherwise, only quotas decide."""
        super().__init__(nodes=nodes, **spec)
        self.stops: list[str] = []
        """The Jobs that the controller has suspended, in order."""
        self._is_placed = is_placed
        if not is_placed:
            self.change(ObjectKey(RESOURCE_FLAVORS, "", "f"), {"spec": {"topologyName": None}})

    def node_feed(self) -> NodeFeed | None:
        return super().node_feed() if self._is_placed else None

    def submit_elastic(self, name: str, pods: int, *, at: int = 0, priority: str = "") -> ObjectKey:
        job = self.submit(name, 1, pods=pods, at=at, priority=priority)
        self.change(job, {"metadata": {"annotations": {ELASTIC: "true"}}})
        return job

    def resize(self, job: ObjectKey, pods: int) -> None:
        self.change(job, {"spec": {"parallelism": pods, "completions": pods}})

    def runs(self, job: ObjectKey) -> bool:
        return not self.get(job)["spec"]["suspend"]

    def gates_of(self, job: ObjectKey) -> list[list[str]]:
        """Return the gates of each pod of a Job."""
        return [[gate["name"] for gate in self.get(key)["spec"].get("schedulingGates") or ()] for key in self.pods(job)]

    def ungated(self, job: ObjectKey) -> int:
        """Return the number of pods of a Job that no gate holds."""
        return self.gates_of(job).count([])

    def slices(self, job: ObjectKey) -> list[tuple[int, str]]:
        """Return the size and the state of each Workload of a Job that is not Finished, the oldest first."""
        return [(workload["spec"]["podSets"][0]["count"], state_of(workload)) for workload in self.unfinished(job)]

    def unfinished(self, job: ObjectKey) -> list[Json]:
        """Return the Workloads of a Job that are not Finished."""
        return [each for each in self.workloads_of(job) if state_of(each) != "Finished"]

    def workloads_of(self, job: ObjectKey) -> list[Json]:
        owners = [(each, each["metadata"].get("ownerReferences") or ()) for each in self.workloads()]
        return [each for each, references in owners if any(owner["name"] == job.name for owner in references)]

    def sync_jobs(self) -> bool:
        """Run one step of the Job controller: Jobs that run have as many pods as their parallelism."""
        changed = super().sync_jobs()
        for key in [key for key in self.objects if key.resource == JOBS and not self.is_finished(key)]:
            job = self.get(key)
            wanted = 0 if job["spec"].get("suspend") else job["spec"]["parallelism"]
            names = {pod.name for pod in self.pods(key)}
            for pod in self.pods(key):
                if int(pod.name.rpartition("-")[2]) >= wanted:
                    self.delete(pod)
                    changed = True
            for i in range(wanted):
                if f"{key.name}-{i}" not in names:
                    self._create_pod(job, i)
                    changed = True
        return changed

    def _create_pod(self, job: Json, index: int) -> None:
        template = copy.deepcopy(job["spec"]["template"])
        own = {CONTROLLER_UID: job["metadata"]["uid"], COMPLETION_INDEX: str(index)}
        template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), **own}
        self.create(PODS, NAMESPACE, f"{job['metadata']['name']}-{index}", **template, status={"phase": "Pending"})

    def send(self, write: Write) -> Outcome:
        if write.key.resource == JOBS and isinstance(write.body, dict) and write.body.get("spec", {}).get("suspend"):
            self.stops.append(write.key.name)
        return super().send(write)


def state_of(workload: Json) -> str:
    """Return the state of a Workload: "Finished", "Evicted", "Admitted", "QuotaReserved" or "Pending"."""
    conditions = workload.get("status", {}).get("conditions", ())
    true = {item["type"] for item in conditions if item["status"] == "True"}
    if "QuotaReserved" not in true and "Finished" not in true:
        return "Pending"
    return next(kind for kind in ("Finished", "Evicted", "Admitted", "QuotaReserved") if kind in true)
