"""The rules of XIDs match NVIDIA's catalogue, gpud and the device plugin, if these are beside the project."""

from __future__ import annotations

import json

import pytest

from support.snapshots import ABSENT, SNAPSHOTS
from zonewise.health.types import Severity, Verdict
from zonewise.health.xid_catalog import XID_RULES, xid_rule

CATALOG = SNAPSHOTS / "xid-catalog.json"


@pytest.mark.skipif(not CATALOG.exists(), reason=ABSENT)
def test_actions_and_verdicts_match_the_sources() -> None:
    catalog = json.loads(CATALOG.read_text())["xids"]
    wrong = {
        code: (rule, entry)
        for code, rule in XID_RULES.items()
        if (entry := catalog[str(code)])
        and (
            (entry.get("immediate") or "") != rule.action
            or (entry.get("gpud_event") == "Fatal") != rule.fatal
            or entry.get("k8s_device_plugin_ignores", False) != rule.ignored
        )
    }
    assert wrong == {}
    unexplained = {
        code
        for code, entry in catalog.items()
        if entry.get("immediate") and "Unused" not in entry.get("description", "")
    } - {str(code) for code in XID_RULES}
    assert unexplained == {"142", "152", "153", "159"}  # display engines, DLA and CHI, which no data-centre GPU has


@pytest.mark.parametrize("code", [32, 38, 44, 63, 68, 94, 109, 121])
def test_a_contradiction_of_the_sources_is_named(code: int) -> None:
    assert "sources disagree: NVIDIA's action is" in xid_rule(code).disagreement


@pytest.mark.parametrize("code", [13, 31, 43, 45, 48, 74, 79, 95, 119])
def test_no_contradiction_is_named_if_the_sources_match(code: int) -> None:
    assert xid_rule(code).disagreement == ""


def test_application_errors_are_only_notes() -> None:
    for rule in XID_RULES.values():
        assert rule.verdict is not Verdict.APPLICATION or rule.severity is Severity.NOTE


def test_an_unknown_xid_and_one_that_is_not_fatal() -> None:
    assert (xid_rule(4711).verdict, xid_rule(4711).severity) == (Verdict.UNKNOWN, Severity.NOTE)
    assert xid_rule(149).severity is Severity.FAILED
    assert xid_rule(149, fatal=False).severity is Severity.DEGRADED
