"""Rebuild lost Workloads, whose object was deleted or lost its quota while pods are active, from records of the start.

The quota of a lost Workload is held while its pods are active (active_jobs.py). A controller that starts in that time
finds only its job or its pods. A start records the admission on each pod, and on the job together with its additions
(workloads/noted_admission.py, jobs/injected.py). The topology assignment is not recorded: pods without a placement in
the planner count as usage of their nodes.

The job is read first, because it also covers pods that are not bound yet. If it no longer exists, the pods are read.

Users may also write these annotations. So a lost Workload has quota only if all of this holds:

1. Its LocalQueue leads to the ClusterQueue, which admits the namespace. A namespace that is being deleted may have lost
   its LocalQueue, and nothing can be created in it any more.
2. Its usage is what its bound pods and the templates of their claims request. The node selector of each pod includes
   the node labels of its flavors. Or its usage is what the pods of its job request; this job belongs to a queue, so it
   is being stopped.
3. The usage fits into the available quota of the ClusterQueue.

So an annotation charges a ClusterQueue only with what its namespace uses on the ClusterQueue's nodes. A job of the
queue could have obtained the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.controller.jobs.injected import read_injected, without_injected
from zonewise_scheduler.controller.pods.pod_names import ADMISSION_ANNOTATION, LOCAL_QUEUE_LABEL, WORKLOAD_ANNOTATION
from zonewise_scheduler.controller.workloads.conditions import api_time
from zonewise_scheduler.controller.workloads.manifest import owner_reference
from zonewise_scheduler.controller.workloads.noted_admission import pod_set_assignment, read_noted_admission
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES, with_claimed_devices
from zonewise_scheduler.quota.api.amount import from_thousandths
from zonewise_scheduler.quota.api.device_requests import claimed_devices
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.quota.api.pod_defaults import with_pod_defaults
from zonewise_scheduler.quota.api.resource_settings import ALL_RESOURCES
from zonewise_scheduler.quota.api.workload_reader import read_workload
from zonewise_scheduler.quota.api.workload_types import DEFAULT_POD_SET
from zonewise_scheduler.quota.hierarchy.snapshot import fits
from zonewise_scheduler.quota.queue.heads import admits_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.workloads.noted_admission import NotedAdmission
    from zonewise_scheduler.quota.api.pod_defaults import PodDefaults
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.resource_settings import ResourceSettings

Json = dict[str, Any]


def noted_workload_name(job: Json) -> str:
    """Return the name of the Workload by which a job was started; "": the job records none."""
    injected = read_injected(job)
    names = (injected.child(name).child("annotations").text(WORKLOAD_ANNOTATION) for name in injected.obj)
    return next(filter(None, names), "")


def workload_of_job(
    job: Json,
    resource: Resource,
    pod_sets: Sequence[PodSetManifest],
    defaults: PodDefaults,
    resources: ResourceSettings = ALL_RESOURCES,
) -> Json | None:
    """Return the admitted Workload by which a job was started; None: the job does not record its admission.

    `pod_sets`: the current pod sets of the job. `defaults`: what the API server adds to its pods. `resources`: which
    requests count. The UID is that of the job, so no Workload object has it. Raises FieldError for pod sets that cannot
    be completed; None also for other invalid ones.
    """
    injected, name = read_injected(job), noted_workload_name(job)
    reader = FieldReader(job, "", [])
    metadata, started = reader.child("metadata"), reader.child("status").text("startTime")
    namespace = metadata.text("namespace")
    spec = {"podSets": [pod_set.as_object() for pod_set in without_injected(job, pod_sets)]}
    completed = with_pod_defaults({"metadata": {"namespace": namespace}, "spec": spec}, defaults)
    workload = read_workload(completed, resources=resources).workload
    if not name or workload is None:
        return None
    noted: list[_NotedPodSet] = []
    for pod_set, original, manifest in zip(pod_sets, workload.pod_sets, completed["spec"]["podSets"], strict=True):
        admission = read_noted_admission(injected.child(pod_set.name).child("annotations").text(ADMISSION_ANNOTATION))
        if admission is not None:
            pods = min(admission.pods, pod_set.pods)
            requests = {resource_name: pods * amount for resource_name, amount in original.requests.items()}
            noted.append(_NotedPodSet(admission, pods, requests, manifest))
    if not noted:
        return None
    uid, created = metadata.text("uid"), metadata.text("creationTimestamp")
    identity = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "creationTimestamp": created,
        "ownerReferences": [owner_reference(resource, metadata.text("name"), uid)],
    }
    return _admitted(identity, metadata.pairs("labels").get(QUEUE_LABEL, ""), noted, started or created)


def workload_of_pods(
    key: str,
    pods: Iterable[ManagedPod],
    flavors: Mapping[str, ResourceFlavor],
    defaults: PodDefaults,
    resources: ResourceSettings = ALL_RESOURCES,
) -> Json | None:
    """Return the admitted Workload of the bound pods that have not ended; None: they do not record an admission.

    `key`: of the Workload; `flavors`: ResourceFlavors by name; `defaults`: its ResourceClaimTemplates count, the pods
    have all others already; `resources`: which requests count. The UID is that of the oldest pod. If pods of a pod set
    record different admissions, the oldest pod's admission counts.
    """
    by_pod_set: dict[str, list[tuple[ManagedPod, NotedAdmission]]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.created, pod.uid)):
        noted = None if pod.requests is None else read_noted_admission(pod.admission)
        if noted is not None and _uses_nodes_of(noted, pod, flavors):
            by_pod_set.setdefault(pod.pod_set or DEFAULT_POD_SET, []).append((pod, noted))
    if not by_pod_set:
        return None
    oldest = next(iter(by_pod_set.values()))[0][0]
    namespace, _, name = key.partition("/")
    created = api_time(oldest.created)
    identity = {"name": name, "namespace": namespace, "uid": oldest.uid, "creationTimestamp": created}
    templates = defaults.claim_templates_of(namespace) or {}
    pod_sets = [_pod_set_of(pod_set, entries, templates, resources) for pod_set, entries in by_pod_set.items()]
    return _admitted(identity, oldest.labels.get(LOCAL_QUEUE_LABEL, ""), pod_sets, created)


def quota_problem(lost: Json, state: PlannerState, *, is_namespace_deleted: bool) -> str:
    """Return why a lost Workload has no quota, by the rules in the module docstring; "": it has quota.

    `is_namespace_deleted`: whether its namespace is being deleted.
    """
    result = read_workload(lost)
    workload = result.workload
    if workload is None or workload.admission is None:
        return "; ".join(result.problems) or "it has no admission"
    queue = state.snapshot.cluster_queues.get(workload.admission.cluster_queue)
    if queue is None:
        return f"there is no ClusterQueue {workload.admission.cluster_queue:.80}"
    local = state.router.local_queue(workload)
    if local is None and not is_namespace_deleted:
        return f"there is no LocalQueue {workload.local_queue_key:.160}"
    is_admitted = admits_namespace(queue.spec, workload.namespace, state.namespaces)
    if (local is not None and local.cluster_queue != queue.name) or not is_admitted:
        return f"ClusterQueue {queue.name} is not for LocalQueue {workload.local_queue_key:.160}"
    return "" if fits(queue, workload.usage) else f"ClusterQueue {queue.name} does not have its quota available"


class _NotedPodSet(NamedTuple):
    admission: NotedAdmission
    pods: int
    requests: Mapping[str, int]
    """Requests of all pods together, as amounts by resource."""
    manifest: Json
    """Entry of spec.podSets."""


def _pod_set_of(
    name: str,
    entries: Sequence[tuple[ManagedPod, NotedAdmission]],
    templates: Mapping[str, Json],
    resources: ResourceSettings,
) -> _NotedPodSet:
    """Return the admission that the oldest pod of a pod set records, with the requests of all pods that record the
    same.
    """
    _, admission = entries[0]
    requests: dict[str, int] = {}
    counted = [pod for pod, noted in entries if noted == admission]
    for pod in counted:
        thousandths = {
            resource: amount if resource == CPU else amount * 1000
            for resource, amount in amounts_by_resource(pod.requests or NO_RESOURCES)
        }
        claimed = claimed_devices(pod.claim_templates, templates)
        thousandths = with_claimed_devices({**thousandths, **pod.device_classes}, claimed)
        for resource, amount in resources.counted_requests(thousandths).items():
            requests[resource] = requests.get(resource, 0) + from_thousandths(resource, amount)
    return _NotedPodSet(admission, len(counted), requests, {"name": name, "count": len(counted)})


def _uses_nodes_of(noted: NotedAdmission, pod: ManagedPod, flavors: Mapping[str, ResourceFlavor]) -> bool:
    """Return whether a pod's node selector fits the flavors that it records, and each of these flavors exists."""
    return all(
        flavor in flavors and dict(flavors[flavor].node_labels).items() <= pod.node_selector.items()
        for flavor in noted.flavors.values()
    )


def _admitted(identity: Json, local_queue: str, pod_sets: Sequence[_NotedPodSet], since: str) -> Json:
    """Return a Workload that has been admitted since a time, in the ClusterQueue that its first pod set records."""
    cluster_queue = pod_sets[0].admission.cluster_queue
    counted = [item for item in pod_sets if item.admission.cluster_queue == cluster_queue]
    assignments = [
        pod_set_assignment(item.manifest["name"], item.admission.flavors, item.pods, item.requests) for item in counted
    ]
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": identity,
        "spec": {"podSets": [item.manifest for item in counted], "queueName": local_queue, "active": True},
        "status": {
            "admission": {"clusterQueue": cluster_queue, "podSetAssignments": assignments},
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": since} for kind in ("QuotaReserved", "Admitted")
            ],
        },
    }
