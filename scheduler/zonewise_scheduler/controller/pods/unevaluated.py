"""The parts of a pod that the controller does not evaluate, so that it leaves the pod to kube-scheduler.

Each field of the API is either evaluated, irrelevant to scheduling, or a reason to leave the pod. So an unknown field
of a newer server is also a reason. These rules apply to pods whose node is decided, so preferences are ignored.

    plugin of kube-scheduler 1.36            where it is evaluated
    SchedulingGates                          a gated pod is not bound
    NodeUnschedulable, NodeName,             nodes/filters/filter_plugins.py
    TaintToleration, NodeAffinity,
    NodeResourcesFit
    NodePorts                                a pod with a host port is left
    VolumeRestrictions, NodeVolumeLimits,    a pod with a volume that may be limited or tied to a location is left
    VolumeBinding, VolumeZone
    PodTopologySpread                        a pod with DoNotSchedule is left
    InterPodAffinity                         a pod with required terms is left, and one that other pods may exclude
    DynamicResources                         a pod with a claim is left
    NodeDeclaredFeatures                     a pod that needs such a feature is left
    GangScheduling                           a pod of a scheduling group is left

Source: pkg/scheduler/apis/config/v1/default_plugins.go; component-helpers nodedeclaredfeatures/features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldError, FieldReader, object_in, objects_in
from zonewise_common.k8s.podspec import containers
from zonewise_scheduler.nodes.filters.constraints import (
    DEFAULT_SCHEDULER,
    scheduler_name,
    scheduler_only_constraints,
)
from zonewise_scheduler.nodes.node.host_ports import host_ports
from zonewise_scheduler.quota.api.workload_types import DEFAULT_POD_SET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

INVALID = "invalid fields"

_SPEC = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers",
    "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os", "overhead",
    "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources",
    "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount",
    "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds",
    "tolerations", "topologySpreadConstraints", "volumes",
})  # fmt: skip
_CONTAINER = frozenset({
    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports",
    "readinessProbe", "resizePolicy", "resources", "restartPolicy", "restartPolicyRules", "securityContext",
    "startupProbe", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices",
    "volumeMounts", "workingDir",
})  # fmt: skip
_RESOURCES = frozenset({"limits", "requests", "claims"})
_AFFINITY = frozenset({"nodeAffinity", "podAffinity", "podAntiAffinity"})
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TOLERATION = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})
_LOCAL_VOLUMES = frozenset(
    {"name", "configMap", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"}
)
"""Kinds of volumes that are available on every node without a limit."""
_RESTART_ALL = "RestartAllContainers"


def unevaluated(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why a v1.Pod or a pod template is left to kube-scheduler; (): the pod itself gives no reason.

    The reasons are "volumes", "pod affinity", "topology spread", "resource claims", "host ports", "node features",
    "scheduler" and "invalid fields". Another reason is the path of a field, such as "spec.schedulingGroup".
    """
    try:
        return tuple(dict.fromkeys(_reasons(pod)))
    except FieldError:
        return (INVALID,)


def unevaluated_pod_sets(workload: Mapping[str, Any]) -> dict[str, str]:
    """Return by pod set of a Workload why its pods are left to kube-scheduler ("volumes, host ports"); "": none."""
    pod_sets = FieldReader(workload, "", []).child("spec").children("podSets")
    return {item.text("name", DEFAULT_POD_SET): ", ".join(unevaluated(item.child("template").obj)) for item in pod_sets}


def _reasons(pod: Mapping[str, Any]) -> Iterator[str]:
    spec = object_in(pod, "spec", "")
    yield from scheduler_only_constraints(pod)
    if any(not _is_local(volume) for volume in objects_in(spec, "volumes", "spec.")):
        yield "volumes"
    if scheduler_name(pod) != DEFAULT_SCHEDULER:
        yield "scheduler"
    if host_ports(pod):
        yield "host ports"
    if _needs_node_features(spec):
        yield "node features"
    yield from _unknown(spec, _SPEC, "spec.")
    yield from _unknown_in_affinity(object_in(spec, "affinity", "spec."))
    for toleration in objects_in(spec, "tolerations", "spec."):
        yield from _unknown(toleration, _TOLERATION, "spec.tolerations.")
    yield from _unknown(object_in(spec, "resources", "spec."), _RESOURCES, "spec.resources.")
    for _, container, path in containers(spec):
        field = path.split("[", 1)[0] + "."
        yield from _unknown(container, _CONTAINER, field)
        yield from _unknown(object_in(container, "resources", path), _RESOURCES, f"{field}resources.")


def _unknown_in_affinity(affinity: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown(affinity, _AFFINITY, "spec.affinity.")
    path = "spec.affinity.nodeAffinity."
    node_affinity = object_in(affinity, "nodeAffinity", "spec.affinity.")
    yield from _unknown(node_affinity, (_REQUIRED, _PREFERRED), path)
    required = object_in(node_affinity, _REQUIRED, path)
    yield from _unknown(required, ("nodeSelectorTerms",), f"{path}{_REQUIRED}.")
    for term in objects_in(required, "nodeSelectorTerms", f"{path}{_REQUIRED}."):
        yield from _unknown(term, ("matchExpressions", "matchFields"), f"{path}{_REQUIRED}.nodeSelectorTerms.")
    for kind in ("podAffinity", "podAntiAffinity"):
        of_pods = object_in(affinity, kind, "spec.affinity.")
        yield from _unknown(of_pods, (_REQUIRED, _PREFERRED), f"spec.affinity.{kind}.")


def _unknown(obj: Mapping[str, Any], known: Iterable[str], path: str) -> Iterator[str]:
    return (f"{path}{name}" for name, value in obj.items() if name not in known and value is not None)


def _is_local(volume: Mapping[str, Any]) -> bool:
    """Return whether every node offers a volume. A projected volume uses only API objects and tokens."""
    kinds = {name for name, value in volume.items() if value is not None}
    return kinds <= _LOCAL_VOLUMES


def _needs_node_features(spec: Mapping[str, Any]) -> bool:
    """Return whether NodeDeclaredFeatures requires a feature of the node for this pod."""
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        return True
    return any(
        rule.get("action") == _RESTART_ALL
        for _, container, path in containers(spec)
        for rule in objects_in(container, "restartPolicyRules", path)
    )
