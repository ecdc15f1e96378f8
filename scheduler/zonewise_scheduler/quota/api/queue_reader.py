"""Reads ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and WorkloadPriorityClasses (apis/kueue/v1beta2, v1beta1).

Each function returns a value and the problems of the object. An invalid field gets its default. A resource with an
invalid quota gets no quota, so that no workload is admitted with it.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from zonewise_common.k8s.fields import FieldReader, open_object
from zonewise_common.k8s.labels import Requirement, is_label_value, is_qualified_name, read_label_selector
from zonewise_common.k8s.quantity import parse_nano_value
from zonewise_common.k8s.taints import read_taints, read_tolerations
from zonewise_scheduler.quota.api.amount import amount_from_quantity
from zonewise_scheduler.quota.api.begin_time import read_advance_reservations
from zonewise_scheduler.quota.api.declared_walltime import read_default_walltime
from zonewise_scheduler.quota.api.queue_types import (
    AdmissionCheck,
    AdmissionCheckStrategyRule,
    ClusterQueue,
    ClusterQueuePreemption,
    Cohort,
    FlavorFungibility,
    LocalQueue,
    ResourceFlavor,
    StopPolicy,
    Topology,
)
from zonewise_scheduler.quota.api.quota_checks import check_flavors_of_checks, check_quotas
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceGroup, ResourceQuota
from zonewise_scheduler.quota.api.workload_types import WorkloadPriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")
ReadResult = tuple[T, tuple[str, ...]]
"""A value and the problems of its object."""

_WithinClusterQueue = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_ReclaimWithinCohort = Literal["Never", "LowerPriority", "Any"]
_BorrowWithinCohort = Literal["Never", "LowerPriority"]
_FungibilityPolicy = Literal["MayStopSearch", "TryNextFlavor"]
_Preference = Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"]
_AdmissionMode = Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
_QueueingStrategy = Literal["StrictFIFO", "BestEffortFIFO"]
_V1BETA1_POLICIES = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def read_cluster_queue(obj: Mapping[str, Any]) -> ReadResult[ClusterQueue]:
    """Return a ClusterQueue."""
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    strategy: _QueueingStrategy = "BestEffortFIFO"
    stop_policy: StopPolicy = "None"
    mode: _AdmissionMode = "NoAdmissionFairSharing"
    scope = spec.child("admissionScope")
    queue = ClusterQueue(
        name,
        _resource_groups(spec),
        spec.text("cohortName") or spec.text("cohort"),
        spec.choice("queueingStrategy", _QueueingStrategy, strategy),
        _preemption(spec.child("preemption")),
        _flavor_fungibility(spec.child("flavorFungibility")),
        _fair_weight(spec),
        spec.choice("stopPolicy", StopPolicy, stop_policy),
        _namespace_selector(spec),
        _admission_checks(spec),
        scope.choice("admissionMode", _AdmissionMode, mode) == "UsageBasedAdmissionFairSharing",
        read_default_walltime(obj, problems),
        read_advance_reservations(obj, problems),
    )
    spec.ignore("concurrentAdmissionPolicy")
    for reader in (scope, spec):
        reader.report_unknown()
    has_parent = spec.has("cohortName") or spec.has("cohort")
    problems += check_quotas(
        queue.resource_groups, has_parent=has_parent, parent_field="spec.cohortName", lends_nominal_only=True
    )
    problems += check_flavors_of_checks(queue.resource_groups, queue.admission_checks)
    return queue, tuple(problems)


def read_cohort(obj: Mapping[str, Any]) -> ReadResult[Cohort]:
    """Return a Cohort."""
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    cohort = Cohort(name, spec.text("parentName"), _resource_groups(spec), _fair_weight(spec))
    spec.report_unknown()
    has_parent = spec.has("parentName")
    problems += check_quotas(
        cohort.resource_groups, has_parent=has_parent, parent_field="spec.parentName", lends_nominal_only=False
    )
    return cohort, tuple(problems)


def read_local_queue(obj: Mapping[str, Any]) -> ReadResult[LocalQueue]:
    """Return a LocalQueue."""
    problems: list[str] = []
    namespace, name, spec = open_object(obj, problems)
    stop_policy: StopPolicy = "None"
    stop_policy = spec.choice("stopPolicy", StopPolicy, stop_policy)
    cluster_queue, fair_weight = spec.text("clusterQueue"), _fair_weight(spec)
    walltime = read_default_walltime(obj, problems)
    queue = LocalQueue(namespace, name, cluster_queue, stop_policy, fair_weight, walltime)
    spec.report_unknown()
    return queue, tuple(problems)


def read_resource_flavor(obj: Mapping[str, Any]) -> ReadResult[ResourceFlavor]:
    """Return a ResourceFlavor; if a taint or toleration is invalid, the flavor has none of them.

    Labels, taints and tolerations that the API server would reject are reported, but remain.
    """
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    flavor = ResourceFlavor(
        name,
        spec.pairs("nodeLabels"),
        spec.read_whole(lambda fields: read_taints({"taints": fields.get("nodeTaints")}), ()),
        spec.read_whole(partial(read_tolerations, comparisons=True), ()),
        spec.text("topologyName"),
    )
    spec.ignore("nodeTaints", "tolerations")
    spec.report_unknown()
    problems += _invalid_labels(flavor)
    return flavor, tuple(problems)


def read_workload_priority_class(obj: Mapping[str, Any]) -> ReadResult[WorkloadPriorityClass]:
    """Return a WorkloadPriorityClass; without a value, it gets 0, the default of the API server."""
    problems: list[str] = []
    whole = FieldReader(obj, "", problems)
    name = whole.child("metadata").text("name")
    priority_class = WorkloadPriorityClass(name, whole.number("value", 0) or 0)
    whole.ignore("apiVersion", "kind", "description")
    whole.report_unknown()
    return priority_class, tuple(problems)


def read_topology(obj: Mapping[str, Any]) -> ReadResult[Topology]:
    """Return a Topology."""
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    levels = tuple(level.text("nodeLabel") for level in spec.children("levels"))
    if not levels or not all(levels):
        spec.report("levels", "not labels of nodes")
        levels = ()
    return Topology(name, levels), tuple(problems)


def read_admission_check(obj: Mapping[str, Any]) -> ReadResult[AdmissionCheck]:
    """Return an AdmissionCheck."""
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    conditions = FieldReader(obj, "", []).child("status").children("conditions")
    is_active = any(item.text("type") == "Active" and item.text("status") == "True" for item in conditions)
    check = AdmissionCheck(name, spec.text("controllerName"), is_active)
    spec.ignore("parameters", "retryDelayMinutes")
    spec.report_unknown()
    return check, tuple(problems)


# --- fields


def _invalid_labels(flavor: ResourceFlavor) -> Iterator[str]:
    for key, value in flavor.node_labels.items():
        if not (is_qualified_name(key) and is_label_value(value)):
            yield f"spec.nodeLabels: {key}: {value} is not a valid label"
    for toleration in flavor.tolerations:
        if toleration.key and not is_qualified_name(toleration.key):
            yield f"spec.tolerations: {toleration.key} is not the key of a taint"
    for taint in flavor.node_taints:
        if not (is_qualified_name(taint.key) and is_label_value(taint.value)):
            yield f"spec.nodeTaints: {taint.key}={taint.value} is not a valid taint"
    for (key, effect), count in Counter((taint.key, taint.effect) for taint in flavor.node_taints).items():
        if count > 1:
            yield f"spec.nodeTaints: {key}:{effect} is listed {count} times: keep it once"


def _resource_groups(spec: FieldReader) -> tuple[ResourceGroup, ...]:
    groups: list[ResourceGroup] = []
    for reader in spec.children("resourceGroups"):
        covered = reader.texts("coveredResources")
        flavors = tuple(map(_flavor_quotas, reader.children("flavors")))
        reader.report_unknown()
        valid = {name for name in covered if all(name in dict(flavor.quotas) for flavor in flavors)}
        for name, count in Counter(covered).items():
            if name not in valid:
                reader.problems.append(f"{reader.path}coveredResources: not every flavor has a quota for {name}")
            if count > 1:
                reader.problems.append(f"{reader.path}coveredResources: {name} is listed {count} times: keep it once")
        for name in dict.fromkeys(name for flavor in flavors for name, _ in flavor.quotas if name not in covered):
            reader.problems.append(f"{reader.path}flavors: {name} has a quota, but is not in coveredResources")
        if flavors and valid:
            groups.append(ResourceGroup(flavors, frozenset(valid)))
    return tuple(groups)


def _flavor_quotas(reader: FieldReader) -> FlavorQuotas:
    quotas: list[tuple[str, ResourceQuota]] = []
    for resource in reader.children("resources"):
        name = resource.text("name")
        read = partial(amount_from_quantity, name)
        nominal = resource.quantity("nominalQuota", read)
        quota = ResourceQuota(
            nominal or 0, resource.quantity("borrowingLimit", read), resource.quantity("lendingLimit", read)
        )
        limits_are_valid = all(
            limit is not None or not resource.has(field)
            for field, limit in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit))
        )
        if nominal is None and not resource.has("nominalQuota"):
            resource.report_missing("nominalQuota")
        if nominal is not None and limits_are_valid:
            quotas.append((name, quota))
        resource.report_unknown()
    flavor = FlavorQuotas(reader.text("name"), tuple(quotas))
    reader.report_unknown()
    return flavor


def _preemption(reader: FieldReader) -> ClusterQueuePreemption:
    within: _WithinClusterQueue = "Never"
    reclaim: _ReclaimWithinCohort = "Never"
    borrow: _BorrowWithinCohort = "Never"
    borrow_reader = reader.child("borrowWithinCohort")
    preemption = ClusterQueuePreemption(
        reader.choice("withinClusterQueue", _WithinClusterQueue, within),
        reader.choice("reclaimWithinCohort", _ReclaimWithinCohort, reclaim),
        borrow_reader.choice("policy", _BorrowWithinCohort, borrow),
        borrow_reader.number("maxPriorityThreshold"),
    )
    borrow_reader.report_unknown()
    reader.report_unknown()
    return preemption


def _flavor_fungibility(reader: FieldReader) -> FlavorFungibility:
    converted = {
        key: _V1BETA1_POLICIES.get(value, value) if isinstance(value, str) else value
        for key, value in reader.obj.items()
    }
    reader = FieldReader(converted, reader.path, reader.problems)
    may_stop: _FungibilityPolicy = "MayStopSearch"
    try_next: _FungibilityPolicy = "TryNextFlavor"
    preference: _Preference = "BorrowingOverPreemption"
    fungibility = FlavorFungibility(
        reader.choice("whenCanBorrow", _FungibilityPolicy, may_stop),
        reader.choice("whenCanPreempt", _FungibilityPolicy, try_next),
        reader.choice("preference", _Preference, preference),
    )
    reader.report_unknown()
    return fungibility


def _fair_weight(spec: FieldReader) -> float:
    """Return fairSharing.weight; 1 if it is absent or invalid (pkg/webhooks/common.go validateFairSharing)."""
    sharing = spec.child("fairSharing")
    billionths = sharing.quantity("weight", parse_nano_value)
    if billionths == 1:
        sharing.report("weight", "must be 0, or above 1n")
        billionths = None
    sharing.report_unknown()
    return 1.0 if billionths is None else billionths / 1e9


def _admission_checks(spec: FieldReader) -> tuple[AdmissionCheckStrategyRule, ...]:
    strategy = spec.child("admissionChecksStrategy")
    rules = [AdmissionCheckStrategyRule(name) for name in spec.texts("admissionChecks")]
    for reader in strategy.children("admissionChecks"):
        rules.append(AdmissionCheckStrategyRule(reader.text("name"), frozenset(reader.texts("onFlavors"))))
        reader.report_unknown()
    strategy.report_unknown()
    return tuple(rules)


def _namespace_selector(spec: FieldReader) -> tuple[Requirement, ...] | None:
    """Return the namespaceSelector. If absent or invalid, it selects nothing (nil, metav1.LabelSelectorAsSelector)."""
    return read_label_selector(spec.child("namespaceSelector")) if spec.has("namespaceSelector") else None
