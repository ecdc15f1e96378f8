"""The settings of the controller: kinds of jobs in the settings file."""

from __future__ import annotations

import pytest

from zonewise_common.service.options import SettingsError
from zonewise_scheduler.controller.settings import read_settings
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS, AdmissionFairSharingConfig

KIND = """
jobKinds:
- group: example.com
  version: v1
  kind: Training
  plural: trainings
  suspend: /spec/suspend
  podSets: [{name: main, template: /spec/template}]
  activePods: [/status/active]
  conditions: {ready: Running, succeeded: Complete, failed: Failed}
"""


def test_kinds_of_jobs_are_read_from_the_file() -> None:
    settings = read_settings({}, {}, KIND)
    assert [kind.resource.kind for kind in settings.job_kinds] == ["Training"]
    assert read_settings({}, {}, "policy: fifo").job_kinds == ()


def test_an_invalid_kind_is_an_error_that_names_file_field_and_value() -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({}, {}, KIND.replace("/spec/suspend", "spec.suspend"), "c.yaml")
    assert str(error.value) == "c.yaml: jobKinds[0].suspend: not a pointer such as /spec/field: 'spec.suspend'"


def test_a_lease_of_kueue_is_a_namespace_and_a_name() -> None:
    assert read_settings({}, {}, None).kueue_lease == "kueue-system/c1f6bfd2.kueue.x-k8s.io"
    assert read_settings({}, {}, 'kueueLease: ""').kueue_lease == ""
    with pytest.raises(SettingsError, match="kueueLease: 'kueue' is not a Lease: use NAMESPACE/NAME"):
        read_settings({}, {}, "kueueLease: kueue")


def test_limits_of_readiness_are_off_by_default_and_are_durations() -> None:
    settings = read_settings({}, {}, None)
    assert (settings.pods_ready_timeout, settings.requeue_limit) == (0, -1)
    settings = read_settings({}, {}, "podsReadyTimeout: 5m\nrequeueLimit: 3\nrequeueBackoffMax: 2h")
    assert (settings.pods_ready_timeout, settings.requeue_limit, settings.requeue_backoff_max) == (300, 3, 7200)


def test_settings_of_the_quota_are_copied_from_kueues_configuration() -> None:
    text = """
resources:
  excludeResourcePrefixes: [example.com/nic]
  transformations: [{input: example.com/mig, strategy: Replace, outputs: {example.com/credits: 2}}]
admissionFairSharing: {usageHalfLifeTime: 168h, resourceWeights: {cpu: 2.0}}
"""
    quota = read_settings({}, {}, text).quota_settings
    assert quota.resources.counted_requests({"example.com/nic": 1, "example.com/mig": 1}) == {"example.com/credits": 2}
    assert quota.admission_fair_sharing == AdmissionFairSharingConfig(604_800.0, resource_weights={"cpu": 2.0})
    assert read_settings({}, {}, "fairSharing: true").quota_settings == DEFAULT_SETTINGS._replace(fair_sharing=True)
    with pytest.raises(SettingsError, match=r"^c.yaml: resources.transformations: not a list: 1$"):
        read_settings({}, {}, "resources: {transformations: 1}", "c.yaml")
