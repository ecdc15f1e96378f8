"""ClusterQueues, Cohorts, LocalQueues, ResourceFlavors and WorkloadPriorityClasses (apis/kueue/v1beta2, v1beta1).

Each function returns a value with what is wrong in the object. An invalid field has its default; a resource with an
invalid quota has none, so that nothing is admitted by it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from zonewise.topology.quantity import parse_milli
from zonewise_scheduler.fit.nodes.selectors import Requirement, Term, read_terms
from zonewise_scheduler.fit.nodes.taints import read_taints, read_tolerations
from zonewise_scheduler.queue.quota.model.amounts import quota_amount
from zonewise_scheduler.queue.quota.model.queues import (
    CheckRule,
    ClusterQueue,
    Cohort,
    Fungibility,
    LocalQueue,
    Preemption,
    ResourceFlavor,
    Stop,
)
from zonewise_scheduler.queue.quota.model.quotas import FlavorQuotas, Quota, ResourceGroup
from zonewise_scheduler.queue.quota.model.workload import PriorityClass
from zonewise_scheduler.queue.quota.read.declared import default_limit
from zonewise_scheduler.queue.quota.read.part import Part, opened

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
Read = tuple[T, tuple[str, ...]]

_Within = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_Reclaim = Literal["Never", "LowerPriority", "Any"]
_Borrow = Literal["Never", "LowerPriority"]
_Scan = Literal["MayStopSearch", "TryNextFlavor"]
_Preference = Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"]
_Mode = Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
_Strategy = Literal["StrictFIFO", "BestEffortFIFO"]
_OLD = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
"""Of v1beta1."""


def read_cluster_queue(given: Mapping[str, Any]) -> Read[ClusterQueue]:
    """Return a ClusterQueue."""
    problems: list[str] = []
    _, name, spec = opened(given, problems)
    strategy: _Strategy = "BestEffortFIFO"
    stop: Stop = "None"
    mode: _Mode = "NoAdmissionFairSharing"
    scope = spec.part("admissionScope")
    found = ClusterQueue(
        name,
        _groups(spec),
        spec.text("cohortName") or spec.text("cohort"),
        spec.one_of("queueingStrategy", _Strategy, strategy),
        _preemption(spec.part("preemption")),
        _fungibility(spec.part("flavorFungibility")),
        _weight(spec),
        spec.one_of("stopPolicy", Stop, stop),
        _namespaces(spec),
        _checks(spec),
        scope.one_of("admissionMode", _Mode, mode) == "UsageBasedAdmissionFairSharing",
        default_limit(given, problems),
    )
    spec.ignore("concurrentAdmissionPolicy")
    for part in (scope, spec):
        part.close()
    return found, tuple(problems)


def read_cohort(given: Mapping[str, Any]) -> Read[Cohort]:
    """Return a Cohort."""
    problems: list[str] = []
    _, name, spec = opened(given, problems)
    found = Cohort(name, spec.text("parentName"), _groups(spec), _weight(spec))
    spec.close()
    return found, tuple(problems)


def read_local_queue(given: Mapping[str, Any]) -> Read[LocalQueue]:
    """Return a LocalQueue."""
    problems: list[str] = []
    namespace, name, spec = opened(given, problems)
    stop: Stop = "None"
    stop = spec.one_of("stopPolicy", Stop, stop)
    found = LocalQueue(namespace, name, spec.text("clusterQueue"), stop, _weight(spec), default_limit(given, problems))
    spec.close()
    return found, tuple(problems)


def read_flavor(given: Mapping[str, Any]) -> Read[ResourceFlavor]:
    """Return a ResourceFlavor; one with an invalid taint or toleration has none of them."""
    problems: list[str] = []
    _, name, spec = opened(given, problems)
    found = ResourceFlavor(
        name,
        spec.pairs("nodeLabels"),
        spec.by(lambda own: read_taints({"taints": own.get("nodeTaints")}), ()),
        spec.by(partial(read_tolerations, comparisons=True), ()),
        spec.text("topologyName"),
    )
    spec.ignore("nodeTaints", "tolerations")
    spec.close()
    return found, tuple(problems)


def read_priority_class(given: Mapping[str, Any]) -> Read[PriorityClass]:
    """Return a WorkloadPriorityClass; one without a value has 0, as the API server defaults."""
    problems: list[str] = []
    whole = Part(given, "", problems)
    name = whole.part("metadata").text("name")
    found = PriorityClass(name, whole.number("value", 0) or 0)
    whole.ignore("apiVersion", "kind", "description")
    whole.close()
    return found, tuple(problems)


# --- parts


def _groups(spec: Part) -> tuple[ResourceGroup, ...]:
    found: list[ResourceGroup] = []
    for one in spec.parts("resourceGroups"):
        covered = one.texts("coveredResources")
        flavors = tuple(map(_flavor_quotas, one.parts("flavors")))
        one.close()
        sound = {name for name in covered if all(name in dict(flavor.quotas) for flavor in flavors)}
        for name in covered:
            if name not in sound:
                one.problems.append(f"{one.at}coveredResources: not every flavor has a quota of {name}")
        if flavors and sound:
            found.append(ResourceGroup(flavors, frozenset(sound)))
    return tuple(found)


def _flavor_quotas(one: Part) -> FlavorQuotas:
    quotas: list[tuple[str, Quota]] = []
    for resource in one.parts("resources"):
        name = resource.text("name")
        read = partial(quota_amount, name)
        nominal = resource.quantity("nominalQuota", read)
        quota = Quota(nominal or 0, resource.quantity("borrowingLimit", read), resource.quantity("lendingLimit", read))
        sound = all(
            limit is not None or not resource.has(field)
            for field, limit in (("borrowingLimit", quota.borrowing), ("lendingLimit", quota.lending))
        )
        if nominal is None and not resource.has("nominalQuota"):
            resource.wrong("nominalQuota", "there is none")
        if nominal is not None and sound:
            quotas.append((name, quota))
        resource.close()
    found = FlavorQuotas(one.text("name"), tuple(quotas))
    one.close()
    return found


def _preemption(one: Part) -> Preemption:
    within: _Within = "Never"
    reclaim: _Reclaim = "Never"
    borrow: _Borrow = "Never"
    borrowing = one.part("borrowWithinCohort")
    found = Preemption(
        one.one_of("withinClusterQueue", _Within, within),
        one.one_of("reclaimWithinCohort", _Reclaim, reclaim),
        borrowing.one_of("policy", _Borrow, borrow),
        borrowing.number("maxPriorityThreshold"),
    )
    borrowing.close()
    one.close()
    return found


def _fungibility(one: Part) -> Fungibility:
    renamed = {key: _OLD.get(value, value) if isinstance(value, str) else value for key, value in one.given.items()}
    own = Part(renamed, one.at, one.problems)
    stop: _Scan = "MayStopSearch"
    goes_on: _Scan = "TryNextFlavor"
    preference: _Preference = "BorrowingOverPreemption"
    found = Fungibility(
        own.one_of("whenCanBorrow", _Scan, stop),
        own.one_of("whenCanPreempt", _Scan, goes_on),
        own.one_of("preference", _Preference, preference),
    )
    own.close()
    return found


def _weight(spec: Part) -> float:
    """Return fairSharing.weight: 1 where there is none, in thousandths rounded up where there is."""
    sharing = spec.part("fairSharing")
    thousandths = sharing.quantity("weight", parse_milli)
    sharing.close()
    return 1.0 if thousandths is None else thousandths / 1000


def _checks(spec: Part) -> tuple[CheckRule, ...]:
    strategy = spec.part("admissionChecksStrategy")
    rules = [CheckRule(name) for name in spec.texts("admissionChecks")]
    for one in strategy.parts("admissionChecks"):
        rules.append(CheckRule(one.text("name"), frozenset(one.texts("onFlavors"))))
        one.close()
    strategy.close()
    return tuple(rules)


def _namespaces(spec: Part) -> tuple[Requirement, ...] | None:
    """Return the namespaceSelector; absent or invalid it is for nobody (nil, metav1.LabelSelectorAsSelector)."""
    if not spec.has("namespaceSelector"):
        return None
    one = spec.part("namespaceSelector")
    labels = tuple(Requirement(key, "In", (value,)) for key, value in sorted(one.pairs("matchLabels").items()))
    one.ignore("matchExpressions")
    one.close()
    expressions: object = one.given.get("matchExpressions") or []
    terms = one.by(partial(_as_term, expressions), None)
    if terms is None or (expressions and not terms):
        one.wrong("matchExpressions", "not valid")
        return None
    return (*labels, *(terms[0].labels if terms else ()))


def _as_term(expressions: object, _own: object) -> tuple[Term, ...]:
    """Return the expressions as those of a node affinity, which are read and checked alike."""
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return read_terms({"affinity": affinity}) or ()
