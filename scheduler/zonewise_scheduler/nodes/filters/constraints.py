"""The constraints of a pod on its node, except zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import object_in, objects_in, string_in
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm, read_node_selector, read_required_terms
from zonewise_common.k8s.taints import Toleration, read_tolerations
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.node.host_ports import HostPort, host_ports
from zonewise_scheduler.nodes.node.pod_requests import pod_requests, requests_device_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.labels import Requirement
    from zonewise_common.k8s.tolerant import Json

DEFAULT_SCHEDULER = "default-scheduler"
_CHECKED_VOLUMES = (
    "persistentVolumeClaim", "ephemeral", "csi", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "azureFile",
    "cinder", "portworxVolume", "vsphereVolume", "rbd", "iscsi",
)  # fmt: skip
"""Volume types that VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits check, including migrated
ones."""


class Constraints(NamedTuple):
    """A pod's inputs to the filters; pods of one template have equal constraints."""

    requests: Resource = Resource(0, 0, 1, 0)
    """Requests of the pod; `pods` is 1."""
    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    """Terms of the required node affinity, one of which must match; None: no such affinity."""
    ports: tuple[HostPort, ...] = ()
    scheduler_only: tuple[str, ...] = ()
    """Constraints that only kube-scheduler checks: scheduler_only_constraints()."""


def read_constraints(pod: Mapping[str, Any], *, comparisons: bool = False) -> Constraints:
    """Return the constraints of a v1.Pod or of a pod template.

    `comparisons`: the state of the cluster's feature gate TaintTolerationComparisonOperators. Raises FieldError, which
    names field and value, for an object that the API server would reject.
    """
    spec = object_in(pod, "spec", "")
    return Constraints(
        pod_requests(pod),
        string_in(spec, "nodeName", "spec."),
        read_tolerations(spec, comparisons=comparisons),
        read_node_selector(spec),
        read_required_terms(spec),
        host_ports(pod),
        scheduler_only_constraints(pod),
    )


def scheduler_name(pod: Mapping[str, Any]) -> str:
    """Return the scheduler that a v1.Pod names. Raises FieldError."""
    return string_in(object_in(pod, "spec", ""), "schedulerName", "spec.") or DEFAULT_SCHEDULER


def scheduler_only_constraints(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the constraints of a pod that only kube-scheduler can check, since they depend on more than nodes.

    The result contains some of "volumes", "pod affinity", "topology spread" and "resource claims", sorted. Likewise,
    only kube-scheduler checks the anti-affinity of other pods, which may keep any pod away from their nodes. Raises
    FieldError.
    """
    spec = object_in(pod, "spec", "")
    uses = {
        "pod affinity": _has_pod_affinity(spec),
        "resource claims": bool(objects_in(spec, "resourceClaims", "spec.")) or requests_device_class(spec),
        "topology spread": any(
            constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
            for constraint in objects_in(spec, "topologySpreadConstraints", "spec.")
        ),
        "volumes": any(
            volume.get(kind) is not None for volume in objects_in(spec, "volumes", "spec.") for kind in _CHECKED_VOLUMES
        ),
    }
    return tuple(name for name, used in uses.items() if used)


def _has_pod_affinity(spec: Json) -> bool:
    affinity = object_in(spec, "affinity", "spec.")
    return any(
        object_in(affinity, kind, "spec.affinity.").get("requiredDuringSchedulingIgnoredDuringExecution")
        for kind in ("podAffinity", "podAntiAffinity")
    )
