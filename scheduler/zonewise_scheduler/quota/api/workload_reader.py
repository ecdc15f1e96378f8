"""Workloads of kueue.x-k8s.io: what they ask for, what they have been given, and what happened to them.

A pod template that is invalid makes the Workload unreadable: nothing is known of what it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, FieldReader, object_in, objects_in
from zonewise_common.k8s.nodeaffinity import read_node_selector, read_required_terms
from zonewise_common.k8s.taints import Toleration, read_tolerations
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.nodes.node.pod_requests import pod_milli_requests
from zonewise_scheduler.quota.api.amount import from_thousandths, resource_value
from zonewise_scheduler.quota.api.declared_walltime import history_keys, workload_walltime
from zonewise_scheduler.quota.api.workload_types import (
    DEFAULT_POD_SET,
    Admission,
    DelayedTopologyRequest,
    Eviction,
    PodSet,
    PodSetAdmission,
    TopologyRequest,
    Workload,
)
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment
from zonewise_scheduler.quota.topology.request_reader import read_preferred_terms, read_topology_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_common.k8s.labels import Requirement

IS_GROUP_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/is-group-workload"
"""Marks the Workload of a group of pods (pkg/controller/jobs/pod/constants)."""

PRIORITY_BOOST_ANNOTATION = "kueue.x-k8s.io/priority-boost"
"""Added to the priority where the gate PriorityBoost (alpha in 0.20) is on."""

_SPEC = (
    "queueName", "priority", "preemptionGates", "active", "maximumExecutionTimeSeconds", "priorityClassName",
    "priorityClassSource", "priorityClassRef",
)  # fmt: skip
_EXPLICIT = ("required", "preferred", "unconstrained", "podSetSliceRequiredTopology", "podSetSliceSize")
_LAYERS = "podsetSliceRequiredTopologyConstraints"
_REQUEST = (*_EXPLICIT, _LAYERS, "podIndexLabel", "subGroupIndexLabel", "subGroupCount")
_STATUS = (
    "requeueState", "resourceRequests", "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds",
    "schedulingStats", "nominatedClusterNames", "clusterName", "admissionChecks",
)  # fmt: skip


class ReadWorkload(NamedTuple):
    """What was read of a Workload."""

    workload: Workload | None
    """None: what it asks for cannot be told."""
    problems: tuple[str, ...]
    finished: bool = False


def read_workload(obj: Mapping[str, Any], *, priority_boost: bool = False) -> ReadWorkload:
    """Read a Workload; `boosts`: the gate PriorityBoost. Whatever it is, nothing is raised."""
    problems: list[str] = []
    whole = FieldReader(obj, "", problems)
    whole.ignore("apiVersion", "kind")
    metadata, spec, status = whole.child("metadata"), whole.child("spec"), whole.child("status")
    whole.report_unknown()
    conditions = _conditions(status)
    try:
        pod_sets = tuple(map(_pod_set, spec.children("podSets")))
        if "QuotaReserved" in conditions:
            pod_sets = tuple(_updated(pod_sets, status))
        workload = _workload(metadata, spec, status, pod_sets, conditions, boosts=priority_boost)
    except FieldError as error:
        problems.append(str(error))
        workload = None
    spec.ignore(*_SPEC)
    status.ignore(*_STATUS, "admission", "reclaimablePods", "preemptionGates", "unhealthyNodes")
    spec.report_unknown()
    status.report_unknown()
    return ReadWorkload(workload, tuple(problems), "Finished" in conditions)


def _workload(
    metadata: FieldReader,
    spec: FieldReader,
    status: FieldReader,
    pod_sets: tuple[PodSet, ...],
    conditions: Mapping[str, tuple[str, float]],
    *,
    boosts: bool,
) -> Workload:
    reason, at = conditions.get("Evicted", ("", 0.0))
    gates = {one.text("name"): one.text("position") for one in status.children("preemptionGates")}
    names = [one.text("name") for one in spec.children("preemptionGates")]
    checks = {one.text("name"): one.text("state") for one in status.children("admissionChecks")}
    return Workload(
        metadata.text("namespace"),
        metadata.text("name"),
        pod_sets,
        metadata.text("uid"),
        spec.text("queueName"),
        (spec.number("priority", 0) or 0) + (_boost(metadata) if boosts else 0),
        metadata.time("creationTimestamp") or 0.0,
        _admission(status, pod_sets, conditions, tuple(name for name, state in checks.items() if state != "Ready")),
        Eviction(reason, at) if "Evicted" in conditions else None,
        {one.text("name"): one.count("count", 0) or 0 for one in status.children("reclaimablePods")},
        any(gates.get(name) != "Open" for name in names),
        active=spec.flag("active", default=True),
        unhealthy_nodes=tuple(one.text("name") for one in status.children("unhealthyNodes")),
        owned_by_single_pod=_read_owned_by_single_pod(metadata),
        walltime=workload_walltime(metadata, spec, status),
        history_keys=history_keys(metadata, spec.text("queueName")),
        failed_checks=tuple(name for name, state in checks.items() if state in {"Retry", "Rejected"}),
    )


def owned_by_single_pod(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a single pod owns the Workload; such a pod cannot move and dies with its node.

    pkg/workload/workload.go OwnedBySinglePod. Raises FieldError for metadata that the API server would reject.
    """
    owners = [
        (owner.get("apiVersion"), owner.get("kind")) for owner in objects_in(metadata, "ownerReferences", "metadata.")
    ]
    annotations = object_in(metadata, "annotations", "metadata.")
    return owners == [("v1", "Pod")] and annotations.get(IS_GROUP_WORKLOAD_ANNOTATION) != "true"


def _read_owned_by_single_pod(metadata: FieldReader) -> bool:
    """Tell whether a single pod owns the Workload; invalid owners are reported as a problem and count as none."""
    try:
        return owned_by_single_pod(metadata.obj)
    except FieldError as error:
        metadata.problems.append(str(error))
        return False


def _boost(metadata: FieldReader) -> int:
    """Return the boost; an invalid one is told, and is none (util/priority/priority.go)."""
    text = metadata.pairs("annotations").get(PRIORITY_BOOST_ANNOTATION, "0")
    try:
        return int(text)
    except ValueError:
        metadata.problems.append(f"metadata.annotations.{PRIORITY_BOOST_ANNOTATION}: not a whole number: {text[:80]!r}")
        return 0


def _conditions(status: FieldReader) -> dict[str, tuple[str, float]]:
    """Return the reasons and times of the conditions that hold."""
    return {
        one.text("type"): (one.text("reason"), one.time("lastTransitionTime") or 0.0)
        for one in status.children("conditions")
        if one.text("status") == "True"
    }


def _pod_set(one: FieldReader) -> PodSet:
    """Return a pod set; raise FieldError for a template that no API server would take."""
    count, minimum = one.count("count", 1), one.count("minCount")
    if count is None or (one.has("count") and one.obj.get("count") != count):
        raise FieldError(f"{one.path}count", "nothing is known of how many pods it has")
    template, topology = one.child("template"), _topology(one)
    try:
        pod = dict(template.obj)
        pod_spec = dict(template.child("spec").obj)
        found = PodSet(
            one.text("name", DEFAULT_POD_SET) or DEFAULT_POD_SET,
            count,
            {
                name: from_thousandths(name, amount)
                for name, amount in pod_milli_requests(pod).items()
                if name != "pods"
            },
            minimum,
            read_node_selector(pod_spec),
            read_required_terms(pod_spec),
            read_tolerations(pod_spec, comparisons=True),
            topology,
            read_preferred_terms(pod_spec),
            shape=read_pod(pod) if pod_spec.get("containers") else None,
        )
    except FieldError as error:
        raise _within(template.path, error) from error
    one.report_unknown()
    return found


def _within(at: str, error: FieldError, prefix: str = "") -> FieldError:
    """Return the error of a part as one of the whole; `prefix` of the field: not there in this part."""
    return FieldError(f"{at}{error.field.removeprefix(prefix)}", str(error).partition(": ")[2])


def _updated(pod_sets: tuple[PodSet, ...], status: FieldReader) -> Iterator[PodSet]:
    """Yield pod sets with what checks that have passed ask of their nodes: those that were made for them, say."""
    found: dict[str, tuple[tuple[Requirement, ...], tuple[Toleration, ...]]] = {}
    for check in status.children("admissionChecks"):
        for one in check.children("podSetUpdates") if check.text("state") == "Ready" else ():
            selector, tolerations = found.get(one.text("name"), ((), ()))
            try:
                more = read_node_selector(one.obj), read_tolerations(one.obj, comparisons=True)
            except FieldError as error:
                raise _within(one.path, error, "spec.") from error
            found[one.text("name")] = (*selector, *more[0]), (*tolerations, *more[1])
    for one in pod_sets:
        selector, tolerations = found.get(one.name, ((), ()))
        yield one._replace(selector=(*one.selector, *selector), tolerations=(*one.tolerations, *tolerations))


def _topology(one: FieldReader) -> TopologyRequest | None:
    if not one.has("topologyRequest"):
        return None
    own = one.child("topologyRequest")
    try:
        request = read_topology_request(own.obj)
    except FieldError as error:
        raise _within(one.path, error) from error
    explicit = any(map(own.has, _EXPLICIT)) or any(own.children(_LAYERS))  # IsExplicitlyRequestingTAS
    found = TopologyRequest(request, own.text("podSetGroupName"), explicit)
    own.ignore(*_REQUEST)
    own.report_unknown()
    return found


def _admission(
    status: FieldReader,
    pod_sets: tuple[PodSet, ...],
    conditions: Mapping[str, tuple[str, float]],
    checks: tuple[str, ...],
) -> Admission | None:
    """Return the admission of a Workload that has its quota; `checks`: those that are not ready."""
    if "QuotaReserved" not in conditions or not status.has("admission"):
        return None
    own = status.child("admission")
    counts = {one.name: one.pods for one in pod_sets}
    sets: list[PodSetAdmission] = []
    for one in own.children("podSetAssignments"):
        name = one.text("name", DEFAULT_POD_SET)
        used = one.amounts("resourceUsage", resource_value)
        pods = one.count("count", counts.get(name, 1))
        place = (
            one.child("topologyAssignment").read_whole(read_topology_assignment, None)
            if one.has("topologyAssignment")
            else None
        )
        delayed: DelayedTopologyRequest = one.choice("delayedTopologyRequest", DelayedTopologyRequest, "")
        pods = counts.get(name, 1) if pods is None else pods
        sets.append(PodSetAdmission(name, one.pairs("flavors"), used, pods, place, delayed))
        one.report_unknown()
    began = conditions["Admitted"][1] if "Admitted" in conditions else None
    checks = checks if began is None else ()
    found = Admission(own.text("clusterQueue"), tuple(sets), conditions["QuotaReserved"][1], checks, began)
    own.report_unknown()
    return found
