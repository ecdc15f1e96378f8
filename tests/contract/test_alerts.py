"""Alerts, recording rules and the dashboard: programs export each metric, and promtool accepts each query."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.manifests import MANIFESTS
from support.programs import find_program, missing_program
from support.snapshots import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

RULES = sorted(MANIFESTS.rglob("alerts/rules.yaml"))
DASHBOARD = MANIFESTS / "components" / "dashboard" / "zonewise.json"
REFERENCE = PROJECT / "docs" / "reference" / "metrics.md"


def groups_of(file: Path) -> list[dict[str, Any]]:
    return yaml.safe_load(file.read_text())["spec"]["groups"]


def queries_of(file: Path) -> list[str]:
    """Return the queries of a file of rules."""
    return [rule["expr"] for group in groups_of(file) for rule in group["rules"]]


def dashboard_panels() -> list[dict[str, Any]]:
    return json.loads(DASHBOARD.read_text())["panels"]


def dashboard_queries() -> list[str]:
    return [target["expr"] for panel in dashboard_panels() for target in panel.get("targets", ())]


def exported() -> set[str]:
    """Return the metrics of the reference, which is generated from the code, with the series of histograms."""
    rows = re.findall(r"^\| `([a-z_]+)` \| (\w+) \| (.*) \|$", REFERENCE.read_text(), re.MULTILINE)
    assert rows, REFERENCE
    names = {name for name, _, text in rows if not text.startswith("Deprecated")}
    return names | {f"{name}_bucket" for name, kind, _ in rows if kind == "histogram"}


@pytest.mark.parametrize("file", RULES, ids=lambda file: str(file.relative_to(MANIFESTS)))
def test_rules_use_metrics_that_are_exported(file: Path) -> None:
    assert _unknown(queries_of(file)) == set()


def test_the_dashboard_uses_metrics_that_are_exported() -> None:
    assert _unknown(dashboard_queries()) == set()


def test_panels_are_distinct_and_described() -> None:
    panels = dashboard_panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []


def test_every_alert_says_what_to_do() -> None:
    alerts = [rule for file in RULES for group in groups_of(file) for rule in group["rules"] if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 0
    for rule in alerts:
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    promtool = find_program("promtool")
    if promtool is None:
        pytest.skip(missing_program("promtool"))
    panels = [{"record": f"panel:{index}", "expr": expr} for index, expr in enumerate(dashboard_queries())]
    groups = [group for file in RULES for group in groups_of(file)] + [{"name": "dashboard", "rules": panels}]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": groups}))
    checked = subprocess.run(
        [str(promtool), "check", "rules", "--lint-fatal", str(rules)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _unknown(queries: list[str]) -> set[str]:
    """Return the metrics of ours that no program exports. The name of a recording rule has colons."""
    names = {name for query in queries for name in re.findall(r"(?<![\w:])zonewise_\w+(?!\w*:)", query)}
    return names - exported()
