"""Kueue's configuration file: each field that the controller does not reproduce is named."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from zonewise_scheduler.controller.kueue.kueue_configuration import configuration_notes
from zonewise_scheduler.controller.settings import read_settings

DEFAULT = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443", enableClusterQueueResources: true}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
controller: {groupKindConcurrency: {Job.batch: 5}}
clientConnection: {qps: 300, burst: 500}
integrations: {frameworks: [batch/job, pod]}
"""
"""What Kueue's installation contains."""


def notes(configuration: str | dict[str, Any], settings: str = "") -> list[str]:
    text = configuration if isinstance(configuration, str) else yaml.safe_dump(configuration)
    return list(configuration_notes(text, read_settings({}, {}, settings)._asdict()))


def test_the_default_configuration_and_equal_settings_give_no_note() -> None:
    assert notes(DEFAULT) == []
    resources = {"excludeResourcePrefixes": ["a"], "transformations": [{"input": "a", "outputs": {"b": "2"}}]}
    sharing = {"usageHalfLifeTime": "1h"}
    kueue = {
        "manageJobsWithoutQueueName": True,
        "waitForPodsReady": {
            "timeout": "5m0s",
            "blockAdmission": False,
            "requeuingStrategy": {"timestamp": "Eviction", "backoffLimitCount": 3, "backoffBaseSeconds": 60},
        },
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
        "featureGates": {"TopologyAwareScheduling": True, "ConcurrentAdmission": False},
        "resources": resources,
        "admissionFairSharing": sharing,
        "objectRetentionPolicies": {"workloads": {"afterFinished": "1h30m"}},
    }
    ours = {
        "manageJobsWithoutQueueName": True,
        "podsReadyTimeout": "300s",
        "podsRecoveryTimeout": "5m",
        "requeueLimit": 3,
        "finishedWorkloadRetention": 5400,
        "fairSharing": True,
        "resources": resources,
        "admissionFairSharing": sharing,
    }
    assert notes(kueue, yaml.safe_dump(ours)) == []


DIFFERENCES: list[tuple[dict[str, Any], list[str]]] = [
    ({"manageJobsWithoutQueueName": True},
     ["manageJobsWithoutQueueName: set the controller's manageJobsWithoutQueueName accordingly: True"]),
    ({"fairSharing": {}}, ["fairSharing: set the controller's fairSharing to true"]),
    ({"fairSharing": {"enable": False}}, []),
    ({"fairSharing": {"enable": True, "preemptionStrategies": ["LessThanInitialShare"]}},
     ["fairSharing: set the controller's fairSharing to true",
      "fairSharing.preemptionStrategies: the controller has no such setting: ['LessThanInitialShare']"]),
    ({"waitForPodsReady": {"enable": False, "timeout": "5m"}}, []),
    ({"waitForPodsReady": {"timeout": "5m", "blockAdmission": True}},
     ["waitForPodsReady.blockAdmission: the controller has no such setting: True",
      "waitForPodsReady.recoveryTimeout: set the controller's podsRecoveryTimeout accordingly: '5m'",
      "waitForPodsReady.timeout: set the controller's podsReadyTimeout accordingly: '5m'"]),
    ({"waitForPodsReady": {"timeout": 300, "recoveryTimeout": "0s"}},
     ["waitForPodsReady.timeout: not a duration, such as 1h30m or 45s: '300'"]),
    ({"waitForPodsReady": {"timeout": "soon", "recoveryTimeout": "0s"}},
     ["waitForPodsReady.timeout: not a duration, such as 1h30m or 45s: 'soon'"]),
    ({"resources": {"deviceClassMappings": [1]}}, ["resources.deviceClassMappings[0]: not an object: 1"]),
    ({"resources": {"excludeResourcePrefixes": ["a"]}},
     ["resources: set the controller's resources accordingly: {'excludeResourcePrefixes': ['a']}"]),
    ({"integrations": {"labelKeysToCopy": ["team"], "podOptions": {"namespaceSelector": {}}}},
     ["integrations.labelKeysToCopy: the controller has no such setting: ['team']",
      "integrations.podOptions: change the namespaceSelector of the webhooks instead: {'namespaceSelector': {}}"]),
    ({"featureGates": {"PartialAdmission": False, "ConcurrentAdmission": True}},
     ["featureGates.ConcurrentAdmission: the controller has no such setting: True",
      "featureGates.PartialAdmission: the controller has no such setting: False"]),
    ({"objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}}},
     [("objectRetentionPolicies.workloads.afterFinished: set the controller's finishedWorkloadRetention accordingly: "
      "'1h'")]),
    ({"objectRetentionPolicies": {"workloads": {"afterFinished": "0s", "afterDeactivatedByKueue": "1h"}}},
     ["objectRetentionPolicies.workloads.afterDeactivatedByKueue: the controller has no such setting: '1h'",
      ("objectRetentionPolicies.workloads.afterFinished: set the controller's finishedWorkloadRetention accordingly: "
      "'0s'")]),
    ({"managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}}},
     [("managedJobsNamespaceSelector: set the controller's managedJobsNamespaceSelector accordingly: "
      "{'matchLabels': {'team': 'a'}}")]),
    ({"unheardOf": 1, "waitForPodsReady": None}, ["unheardOf: the controller has no such setting: 1"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), DIFFERENCES)
def test_a_field_with_another_effect_is_named_with_its_value(fields: dict[str, Any], expected: list[str]) -> None:
    assert sorted(notes(fields)) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("[1]", "not a configuration: [1]"), ("a: [", "no YAML: "), ("", "not a configuration: None")],
)
def test_a_text_that_is_no_configuration_is_reported(text: str, expected: str) -> None:
    (note,) = notes(text)
    assert note.startswith(expected)
