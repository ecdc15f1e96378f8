"""The quality-of-service class of a pod (pkg/apis/core/v1/helper/qos/qos.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from zonewise_common.k8s.fields import FieldError, abbreviated, object_in
from zonewise_scheduler.admission.pod import Qos

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CLASSES: tuple[Qos, ...] = get_args(Qos)


class ComputeResources(NamedTuple):
    """CPUs and memory of a container, or of a pod that has its own, each in any one unit; 0 counts as absent."""

    requests: tuple[int, int]
    limits: tuple[int, int]


def get_pod_qos(pod: Mapping[str, Any], resources: Sequence[ComputeResources]) -> Qos:
    """Return the class that the API server wrote into a v1.Pod, or that it would write.

    Raises FieldError for a class that is none.
    """
    told = object_in(pod, "status", "").get("qosClass")
    if not told:
        return compute_pod_qos(resources)
    if told not in _CLASSES:
        raise FieldError("status.qosClass", f"none of {', '.join(_CLASSES)}: {abbreviated(told)}")
    return told


def compute_pod_qos(resources: Sequence[ComputeResources]) -> Qos:
    """Return the class by what all containers ask for, or by what the pod does if it has resources of its own.

    ComputePodQOS.
    """
    if not any(any(one.requests) or any(one.limits) for one in resources):
        return "BestEffort"
    complete = all(all(one.limits) for one in resources)
    requests = [sum(sizes) for sizes in zip(*(one.requests for one in resources), strict=True)]
    limits = [sum(sizes) for sizes in zip(*(one.limits for one in resources), strict=True)]
    return "Guaranteed" if complete and requests == limits else "Burstable"
