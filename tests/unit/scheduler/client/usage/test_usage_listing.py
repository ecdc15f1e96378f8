"""Listings of usage."""

from __future__ import annotations

from support.run_records import run_record
from zonewise_scheduler.accounting.usage_groups import group_usage
from zonewise_scheduler.client.usage.usage_listing import shown_resources, usage_document, usage_rows


def test_the_cpu_and_devices_are_shown_by_default() -> None:
    assert shown_resources(group_usage([run_record()], ["user"])) == ["cpu", "nvidia.com/gpu"]


def test_unknown_numbers_are_null_in_json_and_empty_in_csv() -> None:
    groups = group_usage([run_record(started=None, user=None)], ["user"])
    [group] = usage_document(groups, ["user"], ["cpu"])
    assert (group["user"], group["medianWait"], group["resourceHours"]) == ("-", None, {"cpu": 0.0})
    names, row = usage_rows([group])
    assert dict(zip(names, row, strict=True))["medianWait"] == ""
    assert usage_rows([]) == []
