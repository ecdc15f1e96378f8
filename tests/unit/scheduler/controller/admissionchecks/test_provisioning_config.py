"""AdmissionChecks for ProvisioningRequests: their configuration, and whether they are active."""

from __future__ import annotations

from typing import Any

import pytest

from support.json_edits import with_field
from zonewise_scheduler.controller.admissionchecks.provisioning_config import (
    ProvisioningConfig,
    RetryStrategy,
    config_of_check,
    read_provisioning_config,
)
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import PROVISIONING_REQUEST_CONTROLLER

Json = dict[str, Any]

OBJECT: Json = {
    "metadata": {"name": "c"},
    "spec": {
        "provisioningClassName": "check-capacity",
        "parameters": {"a": "b"},
        "managedResources": ["nvidia.com/gpu"],
        "retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 5, "backoffMaxSeconds": 12},
        "podSetUpdates": {"nodeSelector": [{"key": "group", "valueFromProvisioningClassDetail": "NodeGroup"}]},
        "podSetMergePolicy": "IdenticalPodTemplates",
    },
}
CHECK_OBJECT: Json = {
    "metadata": {"name": "capacity", "uid": "u", "resourceVersion": "7", "generation": 2},
    "spec": {
        "controllerName": PROVISIONING_REQUEST_CONTROLLER,
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"},
    },
}
CONFIG = ProvisioningConfig(
    "check-capacity",
    {"a": "b"},
    frozenset({"nvidia.com/gpu"}),
    RetryStrategy(0, 5, 12),
    (("group", "NodeGroup"),),
    "IdenticalPodTemplates",
)


def test_a_configuration_is_read() -> None:
    assert read_provisioning_config(OBJECT) == CONFIG
    assert read_provisioning_config({"spec": {"provisioningClassName": "x"}}) == ProvisioningConfig("x")


def test_a_backoff_doubles_up_to_its_maximum() -> None:
    assert [CONFIG.retry.backoff(retry) for retry in (1, 2, 3, 50)] == [5, 10, 12, 12]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("spec.provisioningClassName", None, "spec.provisioningClassName: is missing"),
        ("spec.retryStrategy.backoffBaseSeconds", -1, "spec.retryStrategy.backoffBaseSeconds: not between 0 and"),
        ("spec.podSetMergePolicy", "All", "spec.podSetMergePolicy: not one of IdenticalPodTemplates, "),
        ("spec.podSetUpdates.nodeSelector.0.key", None, "spec.podSetUpdates.nodeSelector[0].key: is missing"),
    ],
)
def test_an_invalid_configuration_names_the_field(path: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=r"^spec\.") as error:
        read_provisioning_config(with_field(OBJECT, path, value))
    assert str(error.value).startswith(message)


def test_a_check_refers_to_its_configuration() -> None:
    assert config_of_check(CHECK_OBJECT, {"c": OBJECT}) == CONFIG
    with pytest.raises(ValueError, match=r"spec\.parameters\.name: there is no ProvisioningRequestConfig 'c'"):
        config_of_check(CHECK_OBJECT, {})
    with pytest.raises(ValueError, match=r"spec\.parameters\.kind: not ProvisioningRequestConfig: ''"):
        config_of_check(with_field(CHECK_OBJECT, "spec.parameters", {}), {"c": OBJECT})
