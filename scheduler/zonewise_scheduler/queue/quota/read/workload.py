"""Workloads of kueue.x-k8s.io: what they ask for, what they have been given, and what happened to them.

A pod template that is invalid makes the Workload unreadable: nothing is known of what it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.fit.model.fields import FieldError
from zonewise_scheduler.fit.nodes.requests import pod_sums
from zonewise_scheduler.fit.nodes.selectors import Requirement, read_selector, read_terms
from zonewise_scheduler.fit.nodes.taints import Toleration, read_tolerations
from zonewise_scheduler.fit.read.pod import read_pod
from zonewise_scheduler.queue.quota.model.amounts import of_thousandths, request_amount
from zonewise_scheduler.queue.quota.model.workload import (
    DEFAULT_POD_SET,
    Admission,
    Delayed,
    Eviction,
    PodSet,
    PodSetAdmission,
    TopologyRequest,
    Workload,
)
from zonewise_scheduler.queue.quota.read.declared import kin_of, workload_limit
from zonewise_scheduler.queue.quota.read.part import Part
from zonewise_scheduler.queue.topology.encoding import read_assignment
from zonewise_scheduler.queue.topology.read import read_preferences, read_request
from zonewise_scheduler.queue.topology.replace import of_one_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BOOST = "kueue.x-k8s.io/priority-boost"
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


def read_workload(given: Mapping[str, Any], *, boosts: bool = False) -> ReadWorkload:
    """Read a Workload; `boosts`: the gate PriorityBoost. Whatever it is, nothing is raised."""
    problems: list[str] = []
    whole = Part(given, "", problems)
    whole.ignore("apiVersion", "kind")
    metadata, spec, status = whole.part("metadata"), whole.part("spec"), whole.part("status")
    whole.close()
    conditions = _conditions(status)
    try:
        pod_sets = tuple(map(_pod_set, spec.parts("podSets")))
        if "QuotaReserved" in conditions:
            pod_sets = tuple(_updated(pod_sets, status))
        workload = _workload(metadata, spec, status, pod_sets, conditions, boosts=boosts)
    except FieldError as error:
        problems.append(str(error))
        workload = None
    spec.ignore(*_SPEC)
    status.ignore(*_STATUS, "admission", "reclaimablePods", "preemptionGates", "unhealthyNodes")
    spec.close()
    status.close()
    return ReadWorkload(workload, tuple(problems), "Finished" in conditions)


def _workload(
    metadata: Part,
    spec: Part,
    status: Part,
    pod_sets: tuple[PodSet, ...],
    conditions: Mapping[str, tuple[str, float]],
    *,
    boosts: bool,
) -> Workload:
    reason, at = conditions.get("Evicted", ("", 0.0))
    gates = {one.text("name"): one.text("position") for one in status.parts("preemptionGates")}
    names = [one.text("name") for one in spec.parts("preemptionGates")]
    checks = {one.text("name"): one.text("state") for one in status.parts("admissionChecks")}
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
        {one.text("name"): one.count("count", 0) or 0 for one in status.parts("reclaimablePods")},
        any(gates.get(name) != "Open" for name in names),
        active=spec.flag("active", default=True),
        failed_nodes=tuple(one.text("name") for one in status.parts("unhealthyNodes")),
        of_one_pod=_of_one_pod(metadata),
        limit=workload_limit(metadata, spec, status),
        kin=kin_of(metadata, spec.text("queueName")),
        failed_checks=tuple(name for name, state in checks.items() if state in {"Retry", "Rejected"}),
    )


def _of_one_pod(metadata: Part) -> bool:
    """Tell whether a Workload is of a single pod; owners that are invalid are told, and are none."""
    try:
        return of_one_pod(metadata.given)
    except FieldError as error:
        metadata.problems.append(str(error))
        return False


def _boost(metadata: Part) -> int:
    """Return the boost; an invalid one is told, and is none (util/priority/priority.go)."""
    text = metadata.pairs("annotations").get(BOOST, "0")
    try:
        return int(text)
    except ValueError:
        metadata.problems.append(f"metadata.annotations.{BOOST}: not a whole number: {text[:80]!r}")
        return 0


def _conditions(status: Part) -> dict[str, tuple[str, float]]:
    """Return the reasons and times of the conditions that hold."""
    return {
        one.text("type"): (one.text("reason"), one.time("lastTransitionTime") or 0.0)
        for one in status.parts("conditions")
        if one.text("status") == "True"
    }


def _pod_set(one: Part) -> PodSet:
    """Return a pod set; raise FieldError for a template that no API server would take."""
    count, minimum = one.count("count", 1), one.count("minCount")
    if count is None or (one.has("count") and one.given.get("count") != count):
        raise FieldError(f"{one.at}count", "nothing is known of how many pods it has")
    template, topology = one.part("template"), _topology(one)
    try:
        pod = dict(template.given)
        pod_spec = dict(template.part("spec").given)
        found = PodSet(
            one.text("name", DEFAULT_POD_SET) or DEFAULT_POD_SET,
            count,
            {name: of_thousandths(name, amount) for name, amount in pod_sums(pod).items() if name != "pods"},
            minimum,
            read_selector(pod_spec),
            read_terms(pod_spec),
            read_tolerations(pod_spec, comparisons=True),
            topology,
            read_preferences(pod_spec),
            shape=read_pod(pod) if pod_spec.get("containers") else None,
        )
    except FieldError as error:
        raise _within(template.at, error) from error
    one.close()
    return found


def _within(at: str, error: FieldError, prefix: str = "") -> FieldError:
    """Return the error of a part as one of the whole; `prefix` of the field: not there in this part."""
    return FieldError(f"{at}{error.field.removeprefix(prefix)}", str(error).partition(": ")[2])


def _updated(pod_sets: tuple[PodSet, ...], status: Part) -> Iterator[PodSet]:
    """Yield pod sets with what checks that have passed ask of their nodes: those that were made for them, say."""
    found: dict[str, tuple[tuple[Requirement, ...], tuple[Toleration, ...]]] = {}
    for check in status.parts("admissionChecks"):
        for one in check.parts("podSetUpdates") if check.text("state") == "Ready" else ():
            selector, tolerations = found.get(one.text("name"), ((), ()))
            try:
                more = read_selector(one.given), read_tolerations(one.given, comparisons=True)
            except FieldError as error:
                raise _within(one.at, error, "spec.") from error
            found[one.text("name")] = (*selector, *more[0]), (*tolerations, *more[1])
    for one in pod_sets:
        selector, tolerations = found.get(one.name, ((), ()))
        yield one._replace(selector=(*one.selector, *selector), tolerations=(*one.tolerations, *tolerations))


def _topology(one: Part) -> TopologyRequest | None:
    if not one.has("topologyRequest"):
        return None
    own = one.part("topologyRequest")
    try:
        request = read_request(own.given)
    except FieldError as error:
        raise _within(one.at, error) from error
    explicit = any(map(own.has, _EXPLICIT)) or any(own.parts(_LAYERS))  # IsExplicitlyRequestingTAS
    found = TopologyRequest(request, own.text("podSetGroupName"), explicit)
    own.ignore(*_REQUEST)
    own.close()
    return found


def _admission(
    status: Part, pod_sets: tuple[PodSet, ...], conditions: Mapping[str, tuple[str, float]], checks: tuple[str, ...]
) -> Admission | None:
    """Return the admission of a Workload that has its quota; `checks`: those that are not ready."""
    if "QuotaReserved" not in conditions or not status.has("admission"):
        return None
    own = status.part("admission")
    counts = {one.name: one.pods for one in pod_sets}
    sets: list[PodSetAdmission] = []
    for one in own.parts("podSetAssignments"):
        name = one.text("name", DEFAULT_POD_SET)
        used = one.amounts("resourceUsage", request_amount)
        pods = one.count("count", counts.get(name, 1))
        place = one.part("topologyAssignment").by(read_assignment, None) if one.has("topologyAssignment") else None
        delayed: Delayed = one.one_of("delayedTopologyRequest", Delayed, "")
        pods = counts.get(name, 1) if pods is None else pods
        sets.append(PodSetAdmission(name, one.pairs("flavors"), used, pods, place, delayed))
        one.close()
    began = conditions["Admitted"][1] if "Admitted" in conditions else None
    checks = checks if began is None else ()
    found = Admission(own.text("clusterQueue"), tuple(sets), conditions["QuotaReserved"][1], checks, began)
    own.close()
    return found
