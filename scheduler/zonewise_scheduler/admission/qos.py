"""The quality-of-service class of a pod (pkg/apis/core/v1/helper/qos/qos.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from zonewise_common.k8s.fields import FieldError, object_in
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_scheduler.admission.pod import Qos

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CLASSES: tuple[Qos, ...] = get_args(Qos)


class ComputeResources(NamedTuple):
    """CPU and memory of a container or of pod-level resources, each in any consistent unit; 0 counts as absent."""

    requests: tuple[int, int]
    limits: tuple[int, int]


def get_pod_qos(pod: Mapping[str, Any], resources: Sequence[ComputeResources]) -> Qos:
    """Return the class that the API server wrote into a v1.Pod, or would write (GetPodQOS).

    Raises FieldError for an unknown class.
    """
    qos_class = object_in(pod, "status", "").get("qosClass")
    if not qos_class:
        return compute_pod_qos(resources)
    if qos_class not in _CLASSES:
        raise FieldError("status.qosClass", f"none of {', '.join(_CLASSES)}: {abbreviated(qos_class)}")
    return qos_class


def compute_pod_qos(resources: Sequence[ComputeResources]) -> Qos:
    """Return the class for the resources of all containers, or for only the pod-level resources (ComputePodQOS)."""
    if not any(any(compute.requests) or any(compute.limits) for compute in resources):
        return "BestEffort"
    all_limited = all(all(compute.limits) for compute in resources)
    requests = [sum(sizes) for sizes in zip(*(compute.requests for compute in resources), strict=True)]
    limits = [sum(sizes) for sizes in zip(*(compute.limits for compute in resources), strict=True)]
    return "Guaranteed" if all_limited and requests == limits else "Burstable"
