"""The condition Active of AdmissionChecks: of those that this controller decides, and of those that nothing decides.

Source: pkg/controller/admissionchecks/provisioning/admissioncheck_reconciler.go. MultiKueue is not supported. Its
checks are inactive, so their ClusterQueues are too, instead of reserving quota for workloads that would never start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import ADMISSION_CHECKS
from zonewise_scheduler.controller.admissionchecks.provisioning_config import (
    config_of_check,
    controller_of_check,
    is_provisioning_check,
)
from zonewise_scheduler.controller.cluster_cache import object_version, uid_of
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import Condition, find_condition, with_conditions
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import MULTIKUEUE_CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json

_ACTIVE = Condition("Active", holds=True, reason="Active", message="The admission check is active")
_UNSUPPORTED = Condition("Active", holds=False, reason="Unsupported", message="MultiKueue is not supported")


def active_condition_write(check: Json, configs: Mapping[str, Json], now: float) -> Write | None:
    """Return the write that corrects the condition Active of a check; None: it is correct, or another controller's.

    `configs`: ProvisioningRequestConfigs by name.
    """
    condition = _active_condition(check, configs)
    observed = find_condition(check, "Active") or {}
    if condition is None or (
        (observed.get("status") == "True") == condition.holds and observed.get("message") == condition.message
    ):
        return None
    body = {"status": {"conditions": with_conditions(check, [condition], now)}}
    key = ObjectKey(ADMISSION_CHECKS, "", check["metadata"]["name"])
    version = str(object_version(check) or "")
    purpose = "activate the check" if condition.holds else "deactivate the check"
    return Write(Verb.MERGE_PATCH, key, purpose, body, "status", uid_of(check), version)


def _active_condition(check: Json, configs: Mapping[str, Json]) -> Condition | None:
    """Return the condition that a check should have; None: another controller sets it."""
    if controller_of_check(check) == MULTIKUEUE_CONTROLLER:
        return _UNSUPPORTED
    if not is_provisioning_check(check):
        return None
    try:
        config_of_check(check, configs)
    except ValueError as error:
        return Condition("Active", holds=False, reason="BadParametersRef", message=str(error))
    return _ACTIVE
