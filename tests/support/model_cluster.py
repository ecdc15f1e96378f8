"""A model of a cluster: objects with versions, conditional writes, and Jobs with the rules of support.job_api.

It models what the live queue needs of an API server and a Job controller, and takes only microseconds. Contract tests
run the same stories on API servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.held_pods import patched
from support.job_api import JobApi, JobRejected
from support.json_copy import json_copy
from support.queue_objects import cluster_queue_spec
from zonewise_common.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.recording.planner_feed import NodeFeed

Json = dict[str, Any]

NAMESPACE = "ns"
CREATED = "2026-01-01T00:00:00Z"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class ModelCluster:
    """Objects by key. Each change gets the next version, as in etcd."""

    def __init__(self, *, clears_start_time: bool = True, stop_steps: int = 1, cpus: int = 8, **spec: Any) -> None:
        """`cpus`: the quota of the only ClusterQueue; `spec`: its other fields.

        `stop_steps`: the number of Job controller steps in which pods terminate.
        """
        self.objects: dict[ObjectKey, Json] = {}
        self.jobs: dict[ObjectKey, JobApi] = {}
        self.starts: dict[str, int] = {}
        """The number of starts of each Job."""
        self.created = CREATED
        """The creationTimestamp of new objects."""
        self._version = 0
        self._uids = 0
        self._clears_start_time = clears_start_time
        self._stop_steps = stop_steps
        self.create(NAMESPACES, "", NAMESPACE)
        self.create(RESOURCE_FLAVORS, "", "f", spec={"nodeLabels": {"flavor": "f"}})
        self.create(CLUSTER_QUEUES, "", "q", spec=cluster_queue_spec({"cpu": str(cpus)}, **spec))
        self.create(LOCAL_QUEUES, NAMESPACE, "l", spec={"clusterQueue": "q"})
        for name, value in (("low", 1), ("high", 9)):
            self.create(WORKLOAD_PRIORITY_CLASSES, "", name, value=value)

    def node_feed(self) -> NodeFeed | None:
        """Return the nodes for a new planner; None: there are no nodes, and only quotas decide."""
        return None

    # --- actions of users

    def create(self, resource: Resource, namespace: str, name: str, **fields: Any) -> ObjectKey:
        key = ObjectKey(resource, namespace, name)
        self._store(key, {"metadata": {"namespace": namespace, "name": name, **fields.pop("metadata", {})}, **fields})
        return key

    def submit(self, name: str, cpus: int, *, pods: int = 1, priority: str = "", at: int = 0) -> ObjectKey:
        """Create a held Job."""
        labels = {QUEUE_LABEL: "l"} | ({"kueue.x-k8s.io/priority-class": priority} if priority else {})
        container = {"name": "c", "resources": {"requests": {"cpu": str(cpus)}}}
        template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": template}
        created = f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z"
        metadata = {"labels": labels, "creationTimestamp": created}
        return self.create(JOBS, NAMESPACE, name, metadata=metadata, spec=spec)

    def change(self, key: ObjectKey, patch: Json) -> None:
        """Change an object as its user does. As on an API server, a patch without effect gives no new version."""
        changed = merge_patch(json_copy(self.get(key)), patch)
        if changed != self.get(key):
            self._store(key, changed)

    def complete(self, key: ObjectKey) -> None:
        """End the run of a Job."""
        job = self.jobs[key].job
        job["status"] |= {"active": 0, "ready": 0, "succeeded": job["spec"]["completions"]}
        job["status"]["conditions"] = [{"type": "Complete", "status": "True", "message": "done"}]
        self._store(key, job)

    def delete(self, key: ObjectKey) -> None:
        """Delete an object and its dependents."""
        obj = self.objects.pop(key)
        self.jobs.pop(key, None)
        uid = obj["metadata"]["uid"]
        for other, dependent in list(self.objects.items()):
            if any(owner["uid"] == uid for owner in dependent["metadata"].get("ownerReferences", ())):
                self.delete(other)

    def add_check(self, name: str, controller: str = "example.com/licences", **parameters: str) -> None:
        """Create an active AdmissionCheck; `parameters`: the reference to its configuration."""
        active = {"conditions": [{"type": "Active", "status": "True"}]}
        spec = {"controllerName": controller, **({"parameters": parameters} if parameters else {})}
        self.create(ADMISSION_CHECKS, "", name, spec=spec, status=active)

    # --- the Job controller

    def sync_jobs(self) -> bool:
        """Run one step of the garbage collector and the Job controller; return whether they changed anything."""
        changed = self._collect_garbage()
        for key, api in self.jobs.items():
            if not self.is_finished(key) and api.sync():
                self._store(key, api.job)
                changed = True
        return changed

    def _collect_garbage(self) -> bool:
        """Delete objects whose owner no longer exists."""
        uids = {obj["metadata"]["uid"] for obj in self.objects.values()}
        orphans = [
            key
            for key, obj in self.objects.items()
            if (owners := obj["metadata"].get("ownerReferences")) and not any(owner["uid"] in uids for owner in owners)
        ]
        for key in orphans:
            self.delete(key)
        return bool(orphans)

    # --- observations

    def get(self, key: ObjectKey) -> Json:
        return self.objects[key]

    def listed(self) -> dict[ObjectKey, Json]:
        """Return all current objects."""
        return dict(self.objects)

    def is_finished(self, key: ObjectKey) -> bool:
        """Return whether a Job has ended."""
        return any(entry["type"] == "Complete" for entry in self.objects[key].get("status", {}).get("conditions", ()))

    def workloads(self) -> list[Json]:
        return [obj for key, obj in self.objects.items() if key.resource == WORKLOADS]

    def active_cpus(self) -> int:
        """Return the CPUs of all running and terminating pods."""
        total = 0
        for api in self.jobs.values():
            (container,) = api.job["spec"]["template"]["spec"]["containers"]
            status = api.job["status"]
            pods = (status.get("active") or 0) + (status.get("terminating") or 0)
            total += pods * int(container["resources"]["requests"]["cpu"])
        return total

    # --- writes of the controller

    def send(self, write: Write) -> Outcome:
        """Apply a write by the rules of an API server."""
        obj = self.objects.get(write.key)
        if write.verb is Verb.CREATE:
            return self._create(write, obj)
        if obj is None:
            return Outcome("done" if write.verb is Verb.DELETE else "stale", message="not found")
        if write.uid and write.uid != obj["metadata"]["uid"]:
            return Outcome("stale", message="another UID")
        if write.resource_version and write.resource_version != obj["metadata"]["resourceVersion"]:
            return Outcome("stale", message="another version")
        if write.verb is Verb.DELETE:
            self.delete(write.key)
            return Outcome("done")
        return self._patch(write, write.body)

    def _create(self, write: Write, obj: Json | None) -> Outcome:
        if obj is not None:
            return Outcome("stale", message="it exists")
        assert isinstance(write.body, dict)
        self._store(write.key, write.body)
        return Outcome("done", self.objects[write.key])

    def _patch(self, write: Write, body: Mapping[str, Any] | list[Json]) -> Outcome:
        if isinstance(body, list):
            self._store(write.key, patched(self.objects[write.key], write))
        elif write.key in self.jobs:
            api = self.jobs[write.key]
            was_held = api.job["spec"].get("suspend")
            try:
                api.patch(dict(body), write.subresource)
            except JobRejected as error:
                return Outcome("rejected", message=str(error))
            if was_held and not api.job["spec"].get("suspend"):
                self.starts[write.key.name] = self.starts.get(write.key.name, 0) + 1
            self._store(write.key, api.job)
        else:
            changed = merge_patch(json_copy(self.objects[write.key]), json_copy(dict(body)))
            self._store(write.key, changed)
        return Outcome("done", self.objects[write.key])

    def _store(self, key: ObjectKey, obj: Json) -> None:
        self._version += 1
        stored = json_copy(obj)
        if key not in self.objects:
            self._uids += 1
            stored["metadata"] = {
                "creationTimestamp": self.created,
                **stored["metadata"],
                "uid": f"u{self._uids}",
            }
        old = self.objects.get(key, {"metadata": {}})
        generation = old["metadata"].get("generation", 0) + (old.get("spec") != stored.get("spec"))
        stored["metadata"] |= {"resourceVersion": str(self._version), "generation": generation}
        self.objects[key] = stored
        if key.resource == JOBS:
            if key not in self.jobs:
                self.jobs[key] = JobApi(stored, clears_start_time=self._clears_start_time, stop_steps=self._stop_steps)
            self.jobs[key].job = json_copy(stored)
            self.jobs[key].job.setdefault("status", {})
