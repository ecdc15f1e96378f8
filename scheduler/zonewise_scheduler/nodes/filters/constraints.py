"""What a pod asks of the node it goes to, apart from zones."""

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

    from zonewise_common.k8s.fields import Json
    from zonewise_common.k8s.labels import Requirement

_VOLUMES = (
    "persistentVolumeClaim", "ephemeral", "csi", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "azureFile",
    "cinder", "portworxVolume", "vsphereVolume", "rbd", "iscsi",
)  # fmt: skip
"""Kinds that VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits look at, migrated ones too."""


class Constraints(NamedTuple):
    """What decides about a pod in the filters here; pods of one template are equal in it."""

    requests: Resource = Resource(0, 0, 1, 0)
    """`pods` is 1."""
    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    """Of the required node affinity, one must hold; None: there is none."""
    ports: tuple[HostPort, ...] = ()
    scheduler_only: tuple[str, ...] = ()
    """What is left to kube-scheduler: left_to_scheduler()."""


def read_constraints(pod: Mapping[str, Any], *, comparisons: bool = False) -> Constraints:
    """Return the constraints of a v1.Pod or of a template of one.

    `comparisons`: the cluster's gate TaintTolerationComparisonOperators. Raises FieldError, naming field and value, for
    what no API server would take.
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


def scheduler_only_constraints(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what of a pod only kube-scheduler can decide, since it depends on more than nodes and their room.

    Some of "volumes", "pod affinity", "topology spread", "resource claims", sorted. The anti-affinity of pods that are
    there already, which may keep any pod away from their nodes, is kube-scheduler's too. Raises FieldError.
    """
    spec = object_in(pod, "spec", "")
    uses = {
        "pod affinity": _has_pod_affinity(spec),
        "resource claims": bool(objects_in(spec, "resourceClaims", "spec.")) or requests_device_class(spec),
        "topology spread": any(
            one.get("whenUnsatisfiable") != "ScheduleAnyway"
            for one in objects_in(spec, "topologySpreadConstraints", "spec.")
        ),
        "volumes": any(one.get(kind) is not None for one in objects_in(spec, "volumes", "spec.") for kind in _VOLUMES),
    }
    return tuple(name for name, used in uses.items() if used)


def _has_pod_affinity(spec: Json) -> bool:
    affinity = object_in(spec, "affinity", "spec.")
    return any(
        object_in(affinity, kind, "spec.affinity.").get("requiredDuringSchedulingIgnoredDuringExecution")
        for kind in ("podAffinity", "podAntiAffinity")
    )
