"""AdmissionChecks with ProvisioningRequests, and their configuration (apis/kueue/v1beta2
provisioningrequestconfig_types.go, pkg/controller/admissionchecks/provisioning/admissioncheck_reconciler.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import PROVISIONING_REQUEST_CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json

MergePolicy = Literal["", "IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"]

_CONFIG_KIND = "ProvisioningRequestConfig"
_MAX_SECONDS = 1 << 31


class RetryStrategy(NamedTuple):
    """How often a request is retried, and after what time."""

    limit: int = 3
    base_seconds: int = 60
    max_seconds: int = 1800

    def backoff(self, retry: int) -> int:
        """Return the seconds before a retry; `retry`: its number, from 1. The time doubles with each retry."""
        return min(self.max_seconds, self.base_seconds << min(retry - 1, 31))


class ProvisioningConfig(NamedTuple):
    """The spec of a ProvisioningRequestConfig."""

    provisioning_class: str
    parameters: Mapping[str, str] = {}
    managed_resources: frozenset[str] = frozenset()
    """Names of the managed resources; empty: all."""
    retry: RetryStrategy = RetryStrategy()
    node_selector: tuple[tuple[str, str], ...] = ()
    """Label keys for the node selector, each with the detail of the provisioning class that holds its value."""
    merge_policy: MergePolicy = ""
    """Which pod sets are merged; "": none."""


def read_provisioning_config(obj: Mapping[str, object]) -> ProvisioningConfig:
    """Return the configuration in a ProvisioningRequestConfig. Raises ValueError, which names the field."""
    problems: list[str] = []
    spec = FieldReader(obj, "", problems).child("spec")
    retry, default = spec.child("retryStrategy"), RetryStrategy()
    updates = spec.child("podSetUpdates").children("nodeSelector")
    config = ProvisioningConfig(
        spec.required_name("provisioningClassName"),
        spec.pairs("parameters"),
        frozenset(spec.texts("managedResources")),
        RetryStrategy(
            retry.int_in_range("backoffLimitCount", default.limit, _MAX_SECONDS, minimum=0),
            retry.int_in_range("backoffBaseSeconds", default.base_seconds, _MAX_SECONDS, minimum=0),
            retry.int_in_range("backoffMaxSeconds", default.max_seconds, _MAX_SECONDS, minimum=0),
        ),
        tuple((item.required_name("key"), item.required_name("valueFromProvisioningClassDetail")) for item in updates),
        spec.choice("podSetMergePolicy", MergePolicy, ""),
    )
    if problems:
        raise ValueError("; ".join(problems))
    return config


def controller_of_check(check: Mapping[str, object]) -> str:
    """Return the name of the controller that decides an AdmissionCheck; "" if it is not readable."""
    return FieldReader(check, "", []).child("spec").text("controllerName")


def is_provisioning_check(check: Mapping[str, object]) -> bool:
    """Return whether this controller decides an AdmissionCheck."""
    return controller_of_check(check) == PROVISIONING_REQUEST_CONTROLLER


def config_of_check(check: Mapping[str, object], configs: Mapping[str, Json]) -> ProvisioningConfig:
    """Return the configuration to which an AdmissionCheck refers; `configs`: ProvisioningRequestConfigs by name.

    Raises ValueError with the reason why the check is not active.
    """
    parameters = FieldReader(check, "", []).child("spec").child("parameters")
    kind, name = parameters.text("kind"), parameters.text("name")
    if kind != _CONFIG_KIND:
        raise ValueError(f"spec.parameters.kind: not {_CONFIG_KIND}: {kind!r:.80}")
    if name not in configs:
        raise ValueError(f"spec.parameters.name: there is no {_CONFIG_KIND} {name!r:.260}")
    return read_provisioning_config(configs[name])
