"""The pod sets of a Workload for which a ProvisioningRequest requests capacity
(pkg/controller/admissionchecks/provisioning/controller.go mergePodSets, requiredPodSets).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import object_in, objects_in
from zonewise_scheduler.controller.jobs.interface import PodSetInfo, StartConflict
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info
from zonewise_scheduler.controller.reconcile.start_infos import start_infos
from zonewise_scheduler.quota.api.pod_set_manifest import read_pod_set_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.admissionchecks.provisioning_config import ProvisioningConfig
    from zonewise_scheduler.controller.types import Json

_CONTAINERS = ("initContainers", "containers")
_SCHEDULING = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")


class RequestedPods(NamedTuple):
    """Pods with the same template, from one pod set or from several merged ones."""

    names: tuple[str, ...]
    """Names of the pod sets. The PodTemplate is named after the first."""
    pods: int
    template: Json
    """The template as submitted."""


def requested_pods(workload: Json, config: ProvisioningConfig) -> list[RequestedPods]:
    """Return the pods for a request, from pod sets that use a managed resource; empty: no request is needed."""
    counts = _admitted_counts(workload)
    groups: list[RequestedPods] = []
    for pod_set in read_pod_set_manifests(workload):
        pods = counts.get(pod_set.name, pod_set.pods)
        if pods < 1 or pod_set.pods < 1 or not _uses(pod_set.template, config.managed_resources):
            continue
        pods_of_set = RequestedPods((pod_set.name,), pods, pod_set.template)
        i = next((i for i, group in enumerate(groups) if _merges(group.template, pod_set.template, config)), None)
        if i is None:
            groups.append(pods_of_set)
        else:
            groups[i] = RequestedPods((*groups[i].names, pod_set.name), groups[i].pods + pods, groups[i].template)
    return groups


def provisioning_template(workload: Json, pods: RequestedPods, flavors: Mapping[str, Json]) -> Json:
    """Return the pods' template with the node selectors and tolerations of their flavors. Raises StartConflict.

    If a request is missing, the limit counts as the request, as the API server defaults it for pods.
    """
    info = next((info for info in start_infos(workload, flavors) if info.name == pods.names[0]), None)
    if info is None:
        raise StartConflict(f"the admission lacks pod set {pods.names[0]}")
    placed = PodSetInfo(info.name, info.pods, node_selector=info.node_selector, tolerations=info.tolerations)
    template = merge_pod_set_info(pods.template, placed)
    spec = dict(template["spec"])
    for field in _CONTAINERS:
        if field in spec:
            spec[field] = [_with_requests(container) for container in objects_in(spec, field, "spec.")]
    return {**template, "spec": spec}


def _admitted_counts(workload: Json) -> dict[str, int]:
    admission = object_in(object_in(workload, "status", ""), "admission", "status.")
    assignments = objects_in(admission, "podSetAssignments", "status.admission.")
    return {item["name"]: item["count"] for item in assignments if item.get("count") is not None}


def _uses(template: Mapping[str, Any], resources: frozenset[str]) -> bool:
    if not resources:
        return True
    spec = object_in(template, "spec", "template.")
    return any(
        resources & object_in(object_in(container, "resources", ""), kind, "").keys()
        for field in _CONTAINERS
        for container in objects_in(spec, field, "spec.")
        for kind in ("requests", "limits")
    )


def _merges(template: Json, other: Json, config: ProvisioningConfig) -> bool:
    if config.merge_policy == "IdenticalPodTemplates":
        return template == other
    return bool(config.merge_policy) and _requirements(template) == _requirements(other)


def _requirements(template: Json) -> list[object]:
    """Return the fields of a template that a scheduler considers."""
    spec = object_in(template, "spec", "template.")
    requests = [
        [object_in(object_in(item, "resources", ""), "requests", "") for item in objects_in(spec, field, "spec.")]
        for field in _CONTAINERS
    ]
    return [requests, *(spec.get(field) or None for field in _SCHEDULING)]


def _with_requests(container: Json) -> Json:
    resources = object_in(container, "resources", "")
    limits = object_in(resources, "limits", "")
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **object_in(resources, "requests", "")}}}
