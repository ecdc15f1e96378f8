"""The state of an admission check, derived from its ProvisioningRequest's conditions (controller.go syncCheckStates).

| the first condition that is true | state of the check | message of the check |
|---|---|---|
| Failed; BookingExpired before the Workload is admitted: attempts are left | Retry, once per attempt | its |
| the same: none is left | Rejected | its |
| CapacityRevoked, the Workload is active | Rejected | its |
| BookingExpired, the Workload is admitted | unchanged | unchanged |
| Provisioned | Ready, with updates of the pod sets | its |
| Accepted | Pending | that of Provisioned: when nodes are expected |
| none | Pending | none |

"its" stands for the message of the condition. A check in state Retry or Rejected evicts the Workload. The eviction
resets the check and counts the retry (workloads/admission_checks.py). The request is then deleted, and the next attempt
is a new request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.admissionchecks.provisioning_request import CLASS_ANNOTATION, REQUEST_ANNOTATION
from zonewise_scheduler.controller.workloads.admission_checks import PENDING, READY, REJECTED, RETRY
from zonewise_scheduler.controller.workloads.conditions import is_true, message_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.controller.admissionchecks.provisioning_config import ProvisioningConfig
    from zonewise_scheduler.controller.admissionchecks.provisioning_pod_sets import RequestedPods
    from zonewise_scheduler.controller.types import Json

INACTIVE = "the check is not active"
NOT_NEEDED = "the provisioning request is not needed"


def retries_of(check: Json) -> int:
    """Return the number of retries of a check so far."""
    return FieldReader(check, "", []).count("retryCount", 0) or 0


def is_used_up(request: Json, workload: Json) -> bool:
    """Return whether a request can no longer lead to capacity: it has failed, or expired before it was used."""
    return is_true(request, "Failed") or (is_true(request, "BookingExpired") and not is_true(workload, "Admitted"))


def next_check(
    check: Json, request: Json, attempt: int, workload: Json, config: ProvisioningConfig, pods: Sequence[RequestedPods]
) -> Json:
    """Return the check as its request requires, following the table above."""
    if is_used_up(request, workload):
        return _after_failure(check, request, attempt, config)
    if is_true(request, "CapacityRevoked"):
        is_active = FieldReader(workload, "", []).child("spec").flag("active", default=True)
        change = {"state": REJECTED, "message": message_of(request, "CapacityRevoked")}
        return {**check, **change} if is_active else check
    if is_true(request, "BookingExpired"):
        return check
    if is_true(request, "Provisioned"):
        if check.get("state") == READY:
            return check
        updates = _pod_set_updates(request, config, pods)
        return {**check, "state": READY, "message": message_of(request, "Provisioned"), "podSetUpdates": updates}
    message = message_of(request, "Provisioned") if is_true(request, "Accepted") else ""
    return {**check, "state": PENDING, "message": message}


def _after_failure(check: Json, request: Json, attempt: int, config: ProvisioningConfig) -> Json:
    failed = is_true(request, "Failed")
    reason = message_of(request, "Failed" if failed else "BookingExpired")
    if attempt > config.retry.limit:
        return {**check, "state": REJECTED, "message": reason}
    changed = {**check, "message": f"Retrying after {'failure' if failed else 'booking expired'}: {reason}"}
    if attempt > retries_of(check):
        changed |= {"state": RETRY, "requeueAfterSeconds": config.retry.backoff(retries_of(check) + 1)}
    return changed


def _pod_set_updates(request: Json, config: ProvisioningConfig, pods: Sequence[RequestedPods]) -> list[Json]:
    """Return the updates that direct pods to the nodes of a request. Each merged pod set gets the same update."""
    status = FieldReader(request, "", []).child("status")
    details = status.pairs("provisioningClassDetails")
    selector = {label: details[detail] for label, detail in config.node_selector if detail in details}
    annotations = {
        REQUEST_ANNOTATION: request["metadata"]["name"],
        CLASS_ANNOTATION: str(request["spec"].get("provisioningClassName", "")),
    }
    update: Json = {"annotations": annotations} | ({"nodeSelector": selector} if selector else {})
    return [{"name": name, **update} for group in pods for name in group.names]
