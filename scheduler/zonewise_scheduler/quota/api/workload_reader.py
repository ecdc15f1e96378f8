"""Reads Workloads: requests, admission and conditions (apis/kueue/v1beta2/workload_types.go).

A Workload with an invalid pod template is unreadable, since its requests are unknown.

Equal pod sets are read only once, because thousands of jobs may come from one template and an object arrives again with
each status change. Workloads therefore also share the values of their pod sets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldError, FieldReader, object_in, objects_in
from zonewise_common.k8s.nodeaffinity import read_node_selector, read_required_terms
from zonewise_common.k8s.taints import Toleration, read_tolerations
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.nodes.devices.class_resource import DEVICE_CLASS
from zonewise_scheduler.nodes.node.avoided_conditions import SINGLE_POD
from zonewise_scheduler.nodes.node.pod_requests import pod_milli_requests, with_claimed_devices
from zonewise_scheduler.quota.api.admission_gates import read_admission_gates
from zonewise_scheduler.quota.api.amount import from_thousandths, resource_value
from zonewise_scheduler.quota.api.begin_time import read_begin
from zonewise_scheduler.quota.api.declared_walltime import history_keys, workload_walltime
from zonewise_scheduler.quota.api.resource_settings import ALL_RESOURCES
from zonewise_scheduler.quota.api.workload_slices import replaced_key
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
    from zonewise_scheduler.quota.api.resource_settings import ResourceSettings

DEVICE_REQUESTS = "deviceRequests"
"""Field of a pod set that only the planner sees: number of devices of each pod by DeviceClass."""
PLACED_DEVICES = "placedDevices"
"""Field of a pod set that only the planner sees: whether its placement counts these devices on nodes."""
IS_GROUP_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/is-group-workload"
"""Marks the Workload of a group of pods (pkg/controller/jobs/pod/constants)."""

PRIORITY_BOOST_ANNOTATION = "kueue.x-k8s.io/priority-boost"
"""Annotation with a number that is added to the priority if the gate PriorityBoost (alpha in 0.20) is on."""

_IGNORED_SPEC = (
    "queueName", "priority", "preemptionGates", "active", "maximumExecutionTimeSeconds", "priorityClassName",
    "priorityClassSource", "priorityClassRef",
)  # fmt: skip
_EXPLICIT = ("required", "preferred", "unconstrained", "podSetSliceRequiredTopology", "podSetSliceSize")
_SLICE_CONSTRAINTS = "podsetSliceRequiredTopologyConstraints"
_TOPOLOGY_REQUEST = (*_EXPLICIT, _SLICE_CONSTRAINTS, "podIndexLabel", "subGroupIndexLabel", "subGroupCount")
_IGNORED_STATUS = (
    "requeueState", "resourceRequests", "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds",
    "schedulingStats", "nominatedClusterNames", "clusterName", "admissionChecks",
)  # fmt: skip

_MAX_COUNT = (1 << 31) - 1
"""Maximum number of pods of a pod set: the API has a 32-bit number."""
_MAX_ENCODED = 8192
"""Maximum size of pod sets that are cached, in bytes of JSON."""


class ReadWorkload(NamedTuple):
    """The result of reading a Workload."""

    workload: Workload | None
    """None if its requests are unknown."""
    problems: tuple[str, ...]
    finished: bool = False


class _ReadPodSets(NamedTuple):
    pod_sets: tuple[PodSet, ...]
    problems: tuple[str, ...]
    error: tuple[str, str] | None = None
    """The field and the problem that make the pod sets unreadable. A stored exception would grow each time it is
    raised."""


def read_workload(
    obj: Mapping[str, Any], *, priority_boost: bool = False, resources: ResourceSettings = ALL_RESOURCES
) -> ReadWorkload:
    """Read a Workload without raising for any object; `priority_boost`: the gate PriorityBoost."""
    problems: list[str] = []
    whole = FieldReader(obj, "", problems)
    whole.ignore("apiVersion", "kind")
    metadata, spec, status = whole.child("metadata"), whole.child("spec"), whole.child("status")
    whole.report_unknown()
    conditions = _conditions(status)
    try:
        pod_sets = _pod_sets(spec, resources)
        if "QuotaReserved" in conditions:
            pod_sets = tuple(_with_pod_set_updates(pod_sets, status))
        workload = _workload(metadata, spec, status, pod_sets, conditions, priority_boost=priority_boost)
    except FieldError as error:
        problems.append(str(error))
        workload = None
    spec.ignore(*_IGNORED_SPEC)
    status.ignore(*_IGNORED_STATUS, "admission", "reclaimablePods", "preemptionGates", "unhealthyNodes")
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
    priority_boost: bool,
) -> Workload:
    positions = {gate.text("name"): gate.text("position") for gate in status.children("preemptionGates")}
    gates = [gate.text("name") for gate in spec.children("preemptionGates")]
    checks = {check.text("name"): check.text("state") for check in status.children("admissionChecks")}
    pending_checks = tuple(name for name, state in checks.items() if state != "Ready")
    admission = _admission(status, pod_sets, conditions, pending_checks)
    return Workload(
        metadata.text("namespace"),
        metadata.text("name"),
        pod_sets if admission is None else tuple(_as_admitted(pod_sets, admission)),
        metadata.text("uid"),
        spec.text("queueName"),
        (spec.number("priority", 0) or 0) + (_priority_boost(metadata) if priority_boost else 0),
        metadata.time("creationTimestamp") or 0.0,
        admission,
        Eviction(*conditions["Evicted"]) if "Evicted" in conditions else None,
        {pod_set.text("name"): pod_set.count("count", 0) or 0 for pod_set in status.children("reclaimablePods")},
        any(positions.get(name) != "Open" for name in gates),
        active=spec.flag("active", default=True),
        unhealthy_nodes=tuple(node.text("name") for node in status.children("unhealthyNodes")),
        owned_by_single_pod=_read_owned_by_single_pod(metadata),
        walltime=workload_walltime(metadata, spec, status),
        history_keys=history_keys(metadata, spec.text("queueName")),
        failed_checks=tuple(name for name, state in checks.items() if state in {"Retry", "Rejected"}),
        admission_gates=read_admission_gates(metadata.pairs("annotations")),
        begin_at=read_begin(metadata.pairs("annotations")),
        replaces=replaced_key(metadata.text("namespace"), metadata.pairs("annotations")),
    )


def owned_by_single_pod(metadata: Mapping[str, Any]) -> bool:
    """Return whether a single pod owns the Workload; such a pod cannot move and dies with its node.

    pkg/workload/workload.go OwnedBySinglePod. Raises FieldError for metadata that the API server would reject.
    """
    owners = [
        (owner.get("apiVersion"), owner.get("kind")) for owner in objects_in(metadata, "ownerReferences", "metadata.")
    ]
    annotations = object_in(metadata, "annotations", "metadata.")
    return owners == [("v1", "Pod")] and annotations.get(IS_GROUP_WORKLOAD_ANNOTATION) != "true"


def _read_owned_by_single_pod(metadata: FieldReader) -> bool:
    """Return whether a single pod owns the Workload; report invalid owners, which count as none."""
    try:
        return owned_by_single_pod(metadata.obj)
    except FieldError as error:
        metadata.problems.append(str(error))
        return False


def _priority_boost(metadata: FieldReader) -> int:
    """Return the boost; an invalid one is reported and counts as 0 (pkg/util/priority/priority.go)."""
    text = metadata.pairs("annotations").get(PRIORITY_BOOST_ANNOTATION, "0")
    try:
        return int(text)
    except ValueError:
        metadata.problems.append(f"metadata.annotations.{PRIORITY_BOOST_ANNOTATION}: not a whole number: {text[:80]!r}")
        return 0


def _conditions(status: FieldReader) -> dict[str, tuple[str, float]]:
    """Return the reasons and times of the conditions that are true, by type."""
    return {
        condition.text("type"): (condition.text("reason"), condition.time("lastTransitionTime") or 0.0)
        for condition in status.children("conditions")
        if condition.text("status") == "True"
    }


def _pod_sets(spec: FieldReader, resources: ResourceSettings) -> tuple[PodSet, ...]:
    """Return the pod sets; raise FieldError for a template that the API server would reject."""
    try:
        encoded = msgspec.json.encode(spec.obj.get("podSets"))
    except (TypeError, ValueError, OverflowError, RecursionError):  # not JSON
        encoded = b""
    if not encoded or len(encoded) > _MAX_ENCODED:
        return _read_pod_sets(spec, resources)
    spec.ignore("podSets")
    remembered = _remembered_pod_sets(encoded, resources)
    spec.problems += remembered.problems
    if remembered.error is not None:
        raise FieldError(*remembered.error)
    return remembered.pod_sets


@lru_cache(maxsize=1024)
def _remembered_pod_sets(encoded: bytes, resources: ResourceSettings) -> _ReadPodSets:
    problems: list[str] = []
    spec = FieldReader({"podSets": msgspec.json.decode(encoded)}, "spec.", problems)
    try:
        return _ReadPodSets(_read_pod_sets(spec, resources), tuple(problems))
    except FieldError as error:
        return _ReadPodSets((), tuple(problems), (error.field, str(error).partition(": ")[2]))


def _read_pod_sets(spec: FieldReader, resources: ResourceSettings) -> tuple[PodSet, ...]:
    pod_sets = tuple(_pod_set(reader, resources) for reader in spec.children("podSets"))
    if sum(pod_set.pods for pod_set in pod_sets) > 1:
        return pod_sets
    return tuple(pod_set._replace(tolerations=(*pod_set.tolerations, SINGLE_POD)) for pod_set in pod_sets)


def _pod_set(reader: FieldReader, resources: ResourceSettings) -> PodSet:
    """Return a pod set; raise FieldError for a template that the API server would reject."""
    count, min_count = reader.count("count", None if reader.has("count") else 1), reader.count("minCount")
    if count is None:
        raise FieldError(f"{reader.path}count", "nothing is known about how many pods it has")
    if count > _MAX_COUNT:
        raise FieldError(f"{reader.path}count", f"not between 0 and {_MAX_COUNT}: {abbreviated(count)}")
    template, topology = reader.child("template"), _topology_request(reader)
    try:
        pod = dict(template.obj)
        pod_spec = dict(template.child("spec").obj)
        name = reader.text("name", DEFAULT_POD_SET) or DEFAULT_POD_SET
        thousandths = pod_milli_requests(pod)
        devices = reader.child(DEVICE_REQUESTS)
        claimed = {device_class: devices.count(device_class) or 0 for device_class in devices.obj}
        with_devices = with_claimed_devices(thousandths, claimed)
        counted, on_node = resources.counted_requests(with_devices), with_devices
        if not reader.flag(PLACED_DEVICES, default=False):
            on_node = {name: amount for name, amount in thousandths.items() if not name.startswith(DEVICE_CLASS)}
        pod_set = PodSet(
            name,
            count,
            _amounts(counted),
            min_count,
            read_node_selector(pod_spec),
            read_required_terms(pod_spec),
            read_tolerations(pod_spec, comparisons=True),
            topology,
            read_preferred_terms(pod_spec),
            None if counted == on_node else _amounts(on_node),
            shape=read_pod(pod) if pod_spec.get("containers") else None,
        )
    except FieldError as error:
        raise _nested_error(template.path, error) from error
    reader.report_unknown()
    return pod_set


def _amounts(thousandths: Mapping[str, int]) -> dict[str, int]:
    return {name: from_thousandths(name, amount) for name, amount in thousandths.items() if name != "pods"}


def _nested_error(path: str, error: FieldError, prefix: str = "") -> FieldError:
    """Return an error with the path of the whole object; `prefix` of the field does not exist in that object."""
    return FieldError(f"{path}{error.field.removeprefix(prefix)}", str(error).partition(": ")[2])


def _with_pod_set_updates(pod_sets: tuple[PodSet, ...], status: FieldReader) -> Iterator[PodSet]:
    """Yield pod sets with the podSetUpdates of their passed checks, for example for provisioned nodes."""
    updates: dict[str, tuple[tuple[Requirement, ...], tuple[Toleration, ...]]] = {}
    for check in status.children("admissionChecks"):
        for update in check.children("podSetUpdates") if check.text("state") == "Ready" else ():
            selector, tolerations = updates.get(update.text("name"), ((), ()))
            try:
                more = read_node_selector(update.obj), read_tolerations(update.obj, comparisons=True)
            except FieldError as error:
                raise _nested_error(update.path, error, "spec.") from error
            updates[update.text("name")] = (*selector, *more[0]), (*tolerations, *more[1])
    for pod_set in pod_sets:
        selector, tolerations = updates.get(pod_set.name, ((), ()))
        yield pod_set._replace(
            node_selector=(*pod_set.node_selector, *selector), tolerations=(*pod_set.tolerations, *tolerations)
        )


def _topology_request(pod_set: FieldReader) -> TopologyRequest | None:
    if not pod_set.has("topologyRequest"):
        return None
    reader = pod_set.child("topologyRequest")
    try:
        request = read_topology_request(reader.obj)
    except FieldError as error:
        raise _nested_error(pod_set.path, error) from error
    explicit = any(map(reader.has, _EXPLICIT)) or any(reader.children(_SLICE_CONSTRAINTS))  # IsExplicitlyRequestingTAS
    topology_request = TopologyRequest(request, reader.text("podSetGroupName"), explicit)
    reader.ignore(*_TOPOLOGY_REQUEST)
    reader.report_unknown()
    return topology_request


def _admission(
    status: FieldReader,
    pod_sets: tuple[PodSet, ...],
    conditions: Mapping[str, tuple[str, float]],
    pending_checks: tuple[str, ...],
) -> Admission | None:
    """Return the admission of a Workload that has quota."""
    if "QuotaReserved" not in conditions or not status.has("admission"):
        return None
    reader = status.child("admission")
    counts = {pod_set.name: pod_set.pods for pod_set in pod_sets}
    admitted: list[PodSetAdmission] = []
    for assignment in reader.children("podSetAssignments"):
        name = assignment.text("name", DEFAULT_POD_SET)
        usage = assignment.amounts("resourceUsage", resource_value)
        pods = assignment.count("count")
        topology_assignment = (
            assignment.child("topologyAssignment").read_whole(read_topology_assignment, None)
            if assignment.has("topologyAssignment")
            else None
        )
        delayed: DelayedTopologyRequest = assignment.choice("delayedTopologyRequest", DelayedTopologyRequest, "")
        pods = counts.get(name, 1) if pods is None else pods
        flavors = assignment.pairs("flavors")
        admitted.append(PodSetAdmission(name, flavors, usage, pods, topology_assignment, delayed))
        assignment.report_unknown()
    admitted_at = conditions["Admitted"][1] if "Admitted" in conditions else None
    pending_checks = pending_checks if admitted_at is None else ()
    reserved_at = conditions["QuotaReserved"][1]
    admission = Admission(reader.text("clusterQueue"), tuple(admitted), reserved_at, pending_checks, admitted_at)
    reader.report_unknown()
    return admission


def _as_admitted(pod_sets: tuple[PodSet, ...], admission: Admission) -> Iterator[PodSet]:
    """Yield pod sets with each pod's requests at the time of the quota reservation (workload.go SinglePodRequests).

    LimitRanges and RuntimeClasses, which complete a template, may change later, but running pods do not. A request that
    counts as another amount against quotas is that of the template.
    """
    assigned = {pod_set.name: pod_set for pod_set in admission.pod_sets if pod_set.pods}
    for pod_set in pod_sets:
        requests = dict(pod_set.requests_on_node)
        if (of_all := assigned.get(pod_set.name)) is not None:
            unchanged = {name for name, amount in requests.items() if pod_set.requests.get(name) == amount}
            requests |= {name: of_all.usage[name] // of_all.pods for name in unchanged & of_all.usage.keys()}
        yield pod_set if requests == pod_set.requests_on_node else pod_set._replace(node_requests=requests)
