"""What a pod asks of the node it goes to, apart from zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.fit.model.fields import part, parts, text
from zonewise_scheduler.fit.model.node import Room
from zonewise_scheduler.fit.nodes.ports import HostPort, host_ports
from zonewise_scheduler.fit.nodes.requests import names_device_class, pod_requests
from zonewise_scheduler.fit.nodes.selectors import Requirement, Term, read_selector, read_terms
from zonewise_scheduler.fit.nodes.taints import Toleration, read_tolerations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.fit.model.fields import Json

_VOLUMES = (
    "persistentVolumeClaim", "ephemeral", "csi", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "azureFile",
    "cinder", "portworxVolume", "vsphereVolume", "rbd", "iscsi",
)  # fmt: skip
"""Kinds that VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits look at, migrated ones too."""


class Constraints(NamedTuple):
    """What decides about a pod in the filters here; pods of one template are equal in it."""

    requests: Room = Room(0, 0, 1, 0)
    """`pods` is 1."""
    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    selector: tuple[Requirement, ...] = ()
    terms: tuple[Term, ...] | None = None
    """Of the required node affinity, one must hold; None: there is none."""
    ports: tuple[HostPort, ...] = ()
    left: tuple[str, ...] = ()
    """What is left to kube-scheduler: left_to_scheduler()."""


def read_constraints(pod: Mapping[str, Any], *, comparisons: bool = False) -> Constraints:
    """Return the constraints of a v1.Pod or of a template of one.

    `comparisons`: the cluster's gate TaintTolerationComparisonOperators. Raises FieldError, naming field and value, for
    what no API server would take.
    """
    spec = part(pod, "spec", "")
    return Constraints(
        pod_requests(pod),
        text(spec, "nodeName", "spec."),
        read_tolerations(spec, comparisons=comparisons),
        read_selector(spec),
        read_terms(spec),
        host_ports(pod),
        left_to_scheduler(pod),
    )


def left_to_scheduler(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what of a pod only kube-scheduler can decide, since it depends on more than nodes and their room.

    Some of "volumes", "pod affinity", "topology spread", "resource claims", sorted. The anti-affinity of pods that are
    there already, which may keep any pod away from their nodes, is kube-scheduler's too. Raises FieldError.
    """
    spec = part(pod, "spec", "")
    uses = {
        "pod affinity": _has_pod_affinity(spec),
        "resource claims": bool(parts(spec, "resourceClaims", "spec.")) or names_device_class(spec),
        "topology spread": any(
            one.get("whenUnsatisfiable") != "ScheduleAnyway"
            for one in parts(spec, "topologySpreadConstraints", "spec.")
        ),
        "volumes": any(one.get(kind) is not None for one in parts(spec, "volumes", "spec.") for kind in _VOLUMES),
    }
    return tuple(name for name, used in uses.items() if used)


def _has_pod_affinity(spec: Json) -> bool:
    affinity = part(spec, "affinity", "spec.")
    return any(
        part(affinity, kind, "spec.affinity.").get("requiredDuringSchedulingIgnoredDuringExecution")
        for kind in ("podAffinity", "podAntiAffinity")
    )
