"""The condition Active: it follows the configuration of a check, and no MultiKueue check is active."""

from __future__ import annotations

from typing import Any

from support.json_edits import with_field
from zonewise_scheduler.controller.admissionchecks.active_condition import active_condition_write
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
)

Json = dict[str, Any]

OBJECT: Json = {"metadata": {"name": "c"}, "spec": {"provisioningClassName": "check-capacity"}}
CHECK_OBJECT: Json = {
    "metadata": {"name": "capacity", "uid": "u", "resourceVersion": "7", "generation": 2},
    "spec": {
        "controllerName": PROVISIONING_REQUEST_CONTROLLER,
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"},
    },
}


def test_the_active_condition_is_written_once_and_follows_the_configuration() -> None:
    write = active_condition_write(CHECK_OBJECT, {"c": OBJECT}, 0.0)
    assert write is not None
    assert (write.key.name, write.subresource, write.uid, write.resource_version) == ("capacity", "status", "u", "7")
    assert isinstance(write.body, dict)
    [condition] = write.body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Active", "True", "Active")
    active = {**CHECK_OBJECT, **write.body}
    assert active_condition_write(active, {"c": OBJECT}, 1.0) is None
    inactive = active_condition_write(active, {}, 1.0)
    assert inactive is not None
    assert isinstance(inactive.body, dict)
    [condition] = inactive.body["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "BadParametersRef")
    assert "there is no ProvisioningRequestConfig 'c'" in condition["message"]


def test_checks_of_other_controllers_get_no_condition() -> None:
    assert active_condition_write(with_field(CHECK_OBJECT, "spec.controllerName", "other"), {}, 0.0) is None


def test_a_multikueue_check_that_kueue_has_activated_becomes_inactive_once() -> None:
    check = with_field(CHECK_OBJECT, "spec.controllerName", MULTIKUEUE_CONTROLLER)
    check["status"] = {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "m"}]}
    write = active_condition_write(check, {}, 0.0)
    assert write is not None
    assert isinstance(write.body, dict)
    [condition] = write.body["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Unsupported")
    assert condition["message"] == "MultiKueue is not supported"
    assert active_condition_write({**check, **write.body}, {}, 1.0) is None
