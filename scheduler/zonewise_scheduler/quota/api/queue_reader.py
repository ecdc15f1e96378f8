"""ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and WorkloadPriorityClasses (apis/kueue/v1beta2, v1beta1).

Each function returns a value with what is wrong in the object. An invalid field has its default; a resource with an
invalid quota has none, so that nothing is admitted by it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from zonewise_common.k8s.fields import FieldReader, open_object
from zonewise_common.k8s.labels import Requirement, read_label_selector
from zonewise_common.k8s.quantity import parse_milli_value
from zonewise_common.k8s.taints import read_taints, read_tolerations
from zonewise_scheduler.quota.api.amount import amount_from_quantity
from zonewise_scheduler.quota.api.declared_walltime import read_default_walltime
from zonewise_scheduler.quota.api.queue_types import (
    AdmissionCheckStrategyRule,
    ClusterQueue,
    ClusterQueuePreemption,
    Cohort,
    FlavorFungibility,
    LocalQueue,
    ResourceFlavor,
    StopPolicy,
)
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceGroup, ResourceQuota
from zonewise_scheduler.quota.api.workload_types import PriorityClass

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
ReadResult = tuple[T, tuple[str, ...]]

_Within = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_Reclaim = Literal["Never", "LowerPriority", "Any"]
_Borrow = Literal["Never", "LowerPriority"]
_Scan = Literal["MayStopSearch", "TryNextFlavor"]
_Preference = Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"]
_Mode = Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
_Strategy = Literal["StrictFIFO", "BestEffortFIFO"]
_OLD = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
"""Of v1beta1."""


def read_cluster_queue(obj: Mapping[str, Any]) -> ReadResult[ClusterQueue]:
    """Return a ClusterQueue."""
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    strategy: _Strategy = "BestEffortFIFO"
    stop: StopPolicy = "None"
    mode: _Mode = "NoAdmissionFairSharing"
    scope = spec.child("admissionScope")
    found = ClusterQueue(
        name,
        _groups(spec),
        spec.text("cohortName") or spec.text("cohort"),
        spec.choice("queueingStrategy", _Strategy, strategy),
        _preemption(spec.child("preemption")),
        _fungibility(spec.child("flavorFungibility")),
        _weight(spec),
        spec.choice("stopPolicy", StopPolicy, stop),
        _namespaces(spec),
        _checks(spec),
        scope.choice("admissionMode", _Mode, mode) == "UsageBasedAdmissionFairSharing",
        read_default_walltime(obj, problems),
    )
    spec.ignore("concurrentAdmissionPolicy")
    for part in (scope, spec):
        part.report_unknown()
    return found, tuple(problems)


def read_cohort(obj: Mapping[str, Any]) -> ReadResult[Cohort]:
    """Return a Cohort."""
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    found = Cohort(name, spec.text("parentName"), _groups(spec), _weight(spec))
    spec.report_unknown()
    return found, tuple(problems)


def read_local_queue(obj: Mapping[str, Any]) -> ReadResult[LocalQueue]:
    """Return a LocalQueue."""
    problems: list[str] = []
    namespace, name, spec = open_object(obj, problems)
    stop: StopPolicy = "None"
    stop = spec.choice("stopPolicy", StopPolicy, stop)
    found = LocalQueue(
        namespace, name, spec.text("clusterQueue"), stop, _weight(spec), read_default_walltime(obj, problems)
    )
    spec.report_unknown()
    return found, tuple(problems)


def read_resource_flavor(obj: Mapping[str, Any]) -> ReadResult[ResourceFlavor]:
    """Return a ResourceFlavor; one with an invalid taint or toleration has none of them."""
    problems: list[str] = []
    _, name, spec = open_object(obj, problems)
    found = ResourceFlavor(
        name,
        spec.pairs("nodeLabels"),
        spec.read_whole(lambda own: read_taints({"taints": own.get("nodeTaints")}), ()),
        spec.read_whole(partial(read_tolerations, comparisons=True), ()),
        spec.text("topologyName"),
    )
    spec.ignore("nodeTaints", "tolerations")
    spec.report_unknown()
    return found, tuple(problems)


def read_workload_priority_class(obj: Mapping[str, Any]) -> ReadResult[PriorityClass]:
    """Return a WorkloadPriorityClass; one without a value has 0, as the API server defaults."""
    problems: list[str] = []
    whole = FieldReader(obj, "", problems)
    name = whole.child("metadata").text("name")
    found = PriorityClass(name, whole.number("value", 0) or 0)
    whole.ignore("apiVersion", "kind", "description")
    whole.report_unknown()
    return found, tuple(problems)


# --- parts


def _groups(spec: FieldReader) -> tuple[ResourceGroup, ...]:
    found: list[ResourceGroup] = []
    for one in spec.children("resourceGroups"):
        covered = one.texts("coveredResources")
        flavors = tuple(map(_flavor_quotas, one.children("flavors")))
        one.report_unknown()
        sound = {name for name in covered if all(name in dict(flavor.quotas) for flavor in flavors)}
        for name in covered:
            if name not in sound:
                one.problems.append(f"{one.path}coveredResources: not every flavor has a quota of {name}")
        if flavors and sound:
            found.append(ResourceGroup(flavors, frozenset(sound)))
    return tuple(found)


def _flavor_quotas(one: FieldReader) -> FlavorQuotas:
    quotas: list[tuple[str, ResourceQuota]] = []
    for resource in one.children("resources"):
        name = resource.text("name")
        read = partial(amount_from_quantity, name)
        nominal = resource.quantity("nominalQuota", read)
        quota = ResourceQuota(
            nominal or 0, resource.quantity("borrowingLimit", read), resource.quantity("lendingLimit", read)
        )
        sound = all(
            limit is not None or not resource.has(field)
            for field, limit in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit))
        )
        if nominal is None and not resource.has("nominalQuota"):
            resource.report("nominalQuota", "there is none")
        if nominal is not None and sound:
            quotas.append((name, quota))
        resource.report_unknown()
    found = FlavorQuotas(one.text("name"), tuple(quotas))
    one.report_unknown()
    return found


def _preemption(one: FieldReader) -> ClusterQueuePreemption:
    within: _Within = "Never"
    reclaim: _Reclaim = "Never"
    borrow: _Borrow = "Never"
    borrowing = one.child("borrowWithinCohort")
    found = ClusterQueuePreemption(
        one.choice("withinClusterQueue", _Within, within),
        one.choice("reclaimWithinCohort", _Reclaim, reclaim),
        borrowing.choice("policy", _Borrow, borrow),
        borrowing.number("maxPriorityThreshold"),
    )
    borrowing.report_unknown()
    one.report_unknown()
    return found


def _fungibility(one: FieldReader) -> FlavorFungibility:
    renamed = {key: _OLD.get(value, value) if isinstance(value, str) else value for key, value in one.obj.items()}
    own = FieldReader(renamed, one.path, one.problems)
    stop: _Scan = "MayStopSearch"
    goes_on: _Scan = "TryNextFlavor"
    preference: _Preference = "BorrowingOverPreemption"
    found = FlavorFungibility(
        own.choice("whenCanBorrow", _Scan, stop),
        own.choice("whenCanPreempt", _Scan, goes_on),
        own.choice("preference", _Preference, preference),
    )
    own.report_unknown()
    return found


def _weight(spec: FieldReader) -> float:
    """Return fairSharing.weight: 1 where there is none, in thousandths rounded up where there is."""
    sharing = spec.child("fairSharing")
    thousandths = sharing.quantity("weight", parse_milli_value)
    sharing.report_unknown()
    return 1.0 if thousandths is None else thousandths / 1000


def _checks(spec: FieldReader) -> tuple[AdmissionCheckStrategyRule, ...]:
    strategy = spec.child("admissionChecksStrategy")
    rules = [AdmissionCheckStrategyRule(name) for name in spec.texts("admissionChecks")]
    for one in strategy.children("admissionChecks"):
        rules.append(AdmissionCheckStrategyRule(one.text("name"), frozenset(one.texts("onFlavors"))))
        one.report_unknown()
    strategy.report_unknown()
    return tuple(rules)


def _namespaces(spec: FieldReader) -> tuple[Requirement, ...] | None:
    """Return the namespaceSelector. Absent or invalid it selects nothing (nil, metav1.LabelSelectorAsSelector)."""
    return read_label_selector(spec.child("namespaceSelector")) if spec.has("namespaceSelector") else None
