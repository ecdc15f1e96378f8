"""The resources that a kubelet has allocated to a pod, which differ from the desired ones during an in-place resize.

A kubelet with static policies rejects a resize of exclusive CPUs and of pinned memory (Infeasible), and any kubelet may
defer a resize. The spec then shows the desired resources, but the pod holds the allocated ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import object_in, objects_in
from zonewise_scheduler.admission.resource_names import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.tolerant import Json

_KINDS = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))


def with_allocated_resources(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a v1.Pod whose containers request what its kubelet has allocated to them, as far as the status shows it.

    A limit that equals the desired request follows the request, so that the pod remains Guaranteed. Raises FieldError.
    Source: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses; allocation_manager.go UpdatePodFromAllocation.
    """
    spec, status = object_in(pod, "spec", ""), object_in(pod, "status", "")
    changed: dict[str, list[Json]] = {}
    for kind, status_kind in _KINDS:
        statuses = objects_in(status, status_kind, "status.")
        allocated = {each.get("name"): each.get("allocatedResources") for each in statuses}
        containers = objects_in(spec, kind, "spec.")
        after = [_allocated(container, allocated.get(container.get("name"))) for container in containers]
        if any(one is not other for one, other in zip(after, containers, strict=True)):
            changed[kind] = after
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _allocated(container: Json, allocated: object) -> Json:
    """Return a container with its allocated resources; the same object if these are the desired ones."""
    resources = object_in(container, "resources", "")
    requests, limits = object_in(resources, "requests", "resources."), object_in(resources, "limits", "resources.")
    if not isinstance(allocated, dict):
        return container
    amounts: Json = {name: allocated[name] for name in (CPU, MEMORY) if name in allocated and name in requests}
    if all(requests[name] == amount for name, amount in amounts.items()):
        return container
    equal = {name: amount for name, amount in amounts.items() if limits.get(name) == requests[name]}
    return {**container, "resources": {**resources, "requests": requests | amounts, "limits": limits | equal}}
