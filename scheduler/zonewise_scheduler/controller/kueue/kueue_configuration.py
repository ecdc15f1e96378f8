"""The fields of Kueue's configuration file that the controller's settings do not reproduce, each as one line.

A field that affects no job is not mentioned: addresses, certificates, leader election, client limits. Source of the
fields: apis/config/v1beta2/configuration_types.go, apis/config/v1beta1/configuration_types.go Configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_common.k8s.duration import parse_duration
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_common.k8s.yaml_document import load_yaml
from zonewise_scheduler.controller.managed_namespaces import MANAGED_NAMESPACES_SETTING, parse_managed_namespaces
from zonewise_scheduler.quota.api.configuration import ADMISSION_FAIR_SHARING_SETTING, parse_admission_fair_sharing
from zonewise_scheduler.quota.api.resource_settings import RESOURCES_SETTING, parse_resource_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CONFIG_MAP = "kueue-manager-config"
"""Name of Kueue's ConfigMap, in the namespace of its Lease (config/default, charts/kueue)."""
CONFIG_MAP_KEY = "controller_manager_config.yaml"

_WITHOUT_EFFECT = frozenset({
    "apiVersion", "kind", "namespace", "health", "webhook", "leaderElection", "controller", "clientConnection",
    "internalCertManagement", "pprofBindAddress", "tls", "visibilityServer", "multiKueue", "metrics.bindAddress",
    "metrics.enableClusterQueueResources", "metrics.localQueueMetrics", "integrations.frameworks",
    "waitForPodsReady.enable", "fairSharing.enable",
})  # fmt: skip
"""Fields that affect no job, or whose function the controller always has. MultiKueue is visible in the queues."""
_SAME_EFFECT = (
    ("waitForPodsReady.blockAdmission", False),
    ("waitForPodsReady.requeuingStrategy.timestamp", "Eviction"),
    ("fairSharing.preemptionStrategies", ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]),
)
"""Fields without a counterpart, and the value as which the controller behaves."""
_GATES = frozenset({
    "AdmissionFairSharing", "AssignQueueLabelsForPods", "FlavorFungibility", "LWSImmutableGroupSize",
    "LocalQueueMetrics", "PartialAdmission", "PrioritizePreemptorWorkloads", "PrioritySortingWithinCohort",
    "QuotaCheckStrategy", "ReclaimablePods", "RejectUpdatesToCQWithInvalidOnFlavors", "SchedulingEquivalenceHashing",
    "TASFailedNodeReplacement", "TASFailedNodeReplacementFailFast", "TASMultiLayerTopology",
    "TASRecomputeAssignmentWithinSchedulingCycle", "TASReplaceNodeOnNodeTaints", "TASReplaceNodeOnPodTermination",
    "TopologyAwareScheduling", "WorkloadPriorityClassDefaulting",
})  # fmt: skip
"""Feature gates as whose functions the controller always behaves."""


class _Counterpart(NamedTuple):
    key: str
    """Key of the controller's setting."""
    field: str
    """Field of its value in ControllerSettings."""
    read: Callable[[Any], object]
    """Returns the value of that setting. Raises ValueError."""


def _unchanged(value: object) -> object:
    return value


def _seconds(value: object) -> float:
    return parse_duration(str(value))


def _retention(value: object) -> float:
    """Return the seconds of a duration. Kueue deletes Workloads after 0 s; the shortest setting is 0.1 s."""
    return max(_SHORTEST, _seconds(value))


_SHORTEST = 0.1
"""Shortest duration of a setting in seconds; without the setting it is 0, and Workloads are kept."""
_REQUEUING = "waitForPodsReady.requeuingStrategy."
_COUNTERPARTS: Mapping[str, _Counterpart] = {
    "manageJobsWithoutQueueName": _Counterpart(
        "manageJobsWithoutQueueName", "manage_jobs_without_queue_name", _unchanged
    ),
    "waitForPodsReady.timeout": _Counterpart("podsReadyTimeout", "pods_ready_timeout", _seconds),
    "waitForPodsReady.recoveryTimeout": _Counterpart("podsRecoveryTimeout", "pods_recovery_timeout", _seconds),
    f"{_REQUEUING}backoffLimitCount": _Counterpart("requeueLimit", "requeue_limit", _unchanged),
    f"{_REQUEUING}backoffBaseSeconds": _Counterpart("requeueBackoff", "requeue_backoff", _unchanged),
    f"{_REQUEUING}backoffMaxSeconds": _Counterpart("requeueBackoffMax", "requeue_backoff_max", _unchanged),
    "objectRetentionPolicies.workloads.afterFinished": _Counterpart(
        "finishedWorkloadRetention", "finished_workload_retention", _retention
    ),
    ADMISSION_FAIR_SHARING_SETTING: _Counterpart(
        ADMISSION_FAIR_SHARING_SETTING, "admission_fair_sharing", parse_admission_fair_sharing
    ),
    MANAGED_NAMESPACES_SETTING: _Counterpart(
        MANAGED_NAMESPACES_SETTING, "managed_jobs_namespace_selector", parse_managed_namespaces
    ),
    RESOURCES_SETTING: _Counterpart(RESOURCES_SETTING, "resources", parse_resource_settings),
}
_ADVICE = {
    "integrations.podOptions": "change the namespaceSelector of the webhooks instead",
    "integrations.externalFrameworks": "describe these kinds in the setting jobKinds",
}


def configuration_notes(text: str, settings: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each field of Kueue's configuration file that has another effect in the controller, or none.

    `settings`: the fields of ControllerSettings.
    """
    try:
        document = load_yaml(text)
    except ValueError as error:
        yield str(error)
        return
    if not isinstance(document, dict):
        yield f"not a configuration: {abbreviated(document)}"
        return
    configuration = _without_disabled(cast("dict[str, Any]", document))
    if configuration.get("fairSharing") is not None and not settings["fair_sharing"]:
        yield "fairSharing: set the controller's fairSharing to true"
    yield from _notes(configuration, "", settings)


def _without_disabled(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration without the groups that are off in v1beta1, and with the default recoveryTimeout."""
    enabled = {name: value for name, value in configuration.items() if _fields(value).get("enable") is not False}
    pods_ready = _fields(enabled.get("waitForPodsReady"))
    if "timeout" in pods_ready:
        enabled["waitForPodsReady"] = {"recoveryTimeout": pods_ready["timeout"], **pods_ready}
    return enabled


def _fields(value: object) -> dict[str, Any]:
    """Return the fields of an object; none for another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _notes(fields: Mapping[str, Any], prefix: str, settings: Mapping[str, object]) -> Iterator[str]:
    for name, value in fields.items():
        path = f"{prefix}{name}"
        if path in _WITHOUT_EFFECT or value is None:
            continue
        if (counterpart := _COUNTERPARTS.get(path)) is not None:
            yield from _difference(path, value, counterpart, settings[counterpart.field])
        elif path in _ADVICE:
            yield f"{path}: {_ADVICE[path]}: {abbreviated(value)}"
        elif isinstance(value, dict):
            yield from _notes(cast("dict[str, Any]", value), f"{path}.", settings)
        elif not _has_same_effect(path, value):
            yield f"{path}: the controller has no such setting: {abbreviated(value)}"


def _difference(path: str, value: object, counterpart: _Counterpart, current: object) -> Iterator[str]:
    try:
        if counterpart.read(value) != current:
            yield f"{path}: set the controller's {counterpart.key} accordingly: {abbreviated(value)}"
    except ValueError as error:
        yield str(error) if str(error).startswith(path) else f"{path}: {error}"


def _has_same_effect(path: str, value: object) -> bool:
    """Return whether the controller always behaves as a field without a counterpart requests."""
    group, _, gate = path.partition(".")
    return value is (gate in _GATES) if group == "featureGates" else (path, value) in _SAME_EFFECT
