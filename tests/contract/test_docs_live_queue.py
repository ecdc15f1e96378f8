"""The guide to the live queue is correct: its names exist in the code, and a Workload gets its message."""

from __future__ import annotations

import re

import yaml

from support.snapshots import PROJECT
from zonewise_scheduler.backfill.explanation.explanation import Explanation, QuotaShortage
from zonewise_scheduler.controller.admissionchecks.provisioning_config import (
    RetryStrategy,
    config_of_check,
    is_provisioning_check,
)
from zonewise_scheduler.controller.election import LEASE
from zonewise_scheduler.controller.planning.checkpoint_object import NAME as CHECKPOINT
from zonewise_scheduler.controller.settings import OPTIONS
from zonewise_scheduler.controller.status import job_events
from zonewise_scheduler.controller.status.pending_note import pending_note
from zonewise_scheduler.quota.api.configuration import ADMISSION_FAIR_SHARING_SETTING, parse_admission_fair_sharing
from zonewise_scheduler.quota.api.resource_settings import RESOURCES_SETTING, parse_resource_settings

GUIDE = (PROJECT / "docs/guides/live-queue.md").read_text()
NOON = 1_795_348_800.0
"""2026-11-22T12:00:00Z."""


def test_a_workload_gets_the_message_of_the_guide() -> None:
    shortage = QuotaShortage("all", "cpu", 6000, 2000, "nominal", "queue", 8000)
    explanation = Explanation(
        "default/job-train-2",
        "queue",
        1,
        NOON,
        shortages=(shortage,),
        waits_for=("default/job-train-1-2a2ba",),
        start=NOON + 8400,
        reserved=True,
    )
    assert f"\n{pending_note(explanation, None).message}\n" in GUIDE


def test_names_of_the_guide_exist_in_the_program() -> None:
    keys = {option.key for option in OPTIONS}
    named = {"policy", "fairSharing", "writesPerSecond", "writeBurst", "recording", "podsReadyTimeout", "requeueLimit"}
    assert {key for key in named if re.search(rf"`{key}\b", GUIDE)} == named <= keys
    assert f"`{LEASE}`" in GUIDE
    assert f"`{CHECKPOINT}`" in GUIDE


def test_events_have_these_reasons() -> None:
    table = GUIDE.partition("| Event of the Job |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[A-Z].+`) \|", table, re.MULTILINE)
    reasons = {reason.rstrip(".") for row in rows for reason in re.findall(r"`([A-Za-z.]+)`", row)}
    assert len(reasons) >= 7
    assert [reason for reason in reasons if reason not in (job_events.__doc__ or "")] == []


def test_the_first_job_is_a_part_of_the_example() -> None:
    shown, *_ = re.findall(r"```yaml\n(.+?)```", GUIDE, re.DOTALL)
    part = yaml.safe_load(shown)
    example = yaml.safe_load((PROJECT / "manifests/queue/examples/job.yaml").read_text())
    assert part["metadata"] == {name: example["metadata"][name] for name in part["metadata"]}
    assert part["spec"] == {name: example["spec"][name] for name in part["spec"]}


def test_the_settings_in_the_guide_are_valid() -> None:
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.+?)```", GUIDE, re.DOTALL)]
    settings = {name: value for block in shown if "metadata" not in block for name, value in block.items()}
    assert parse_admission_fair_sharing(settings.pop(ADMISSION_FAIR_SHARING_SETTING)).resource_weights
    assert settings == {}


def test_the_settings_in_the_guide_to_devices_are_valid() -> None:
    page = (PROJECT / "docs/guides/devices.md").read_text()
    [shown] = re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)
    assert parse_resource_settings(yaml.safe_load(shown)[RESOURCES_SETTING]).transformations


def test_the_check_in_the_guide_to_nodes_has_a_valid_configuration() -> None:
    page = (PROJECT / "docs/guides/provisioning.md").read_text()
    [shown] = re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)
    check, config = yaml.safe_load_all(shown)
    assert is_provisioning_check(check)
    configuration = config_of_check(check, {config["metadata"]["name"]: config})
    assert configuration.retry == RetryStrategy()
    reasons = re.findall(r"`([A-Z][A-Za-z]+Created|[A-Z][A-Za-z]+Updated|FailedCreate)`", page)
    assert [reason for reason in reasons if reason not in (job_events.__doc__ or "")] == []
