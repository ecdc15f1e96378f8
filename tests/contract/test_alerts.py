"""Alerts, recording rules and dashboards: they cover every metric, promtool accepts them, and all alerts fire."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.alert_cases import CASES, Series, promql_tests, promtool_tests
from support.manifests import MANIFESTS
from support.programs import find_program, missing_program
from support.snapshots import PROJECT
from tools.dashboards.__main__ import DIRECTORY, dashboard_files
from tools.dashboards.panels import DASHBOARDS

if TYPE_CHECKING:
    from pathlib import Path

RULES = sorted(MANIFESTS.rglob("alerts/rules.yaml"))
REFERENCE = PROJECT / "docs" / "reference" / "metrics.md"
NOT_SHOWN: dict[str, str] = {}
"""Metrics of the reference that are on no panel and in no rule, each with the reason."""
_SUFFIXES = ("_bucket", "_count", "_sum")
_NAME = re.compile(r"(?<![\w:\"])(?:zonewise|kueue|node)_\w+(?!\w*:)")

each_file = pytest.mark.parametrize("file", RULES, ids=lambda file: str(file.relative_to(MANIFESTS)))


def groups_of(file: Path) -> list[dict[str, Any]]:
    return yaml.safe_load(file.read_text())["spec"]["groups"]


def rules() -> list[dict[str, Any]]:
    return [rule for file in RULES for group in groups_of(file) for rule in group["rules"]]


def panel_queries() -> list[str]:
    rows = [row for board in DASHBOARDS for row in board.rows]
    return [query.expr for row in rows for panel in row.panels for query in panel.queries]


def exported() -> set[str]:
    """Return the metrics of the reference, which is generated from the code, except deprecated ones."""
    rows = re.findall(r"^\| `([a-z_]+)` \| \w+ \| [^|]* \| (.*) \|$", REFERENCE.read_text(), re.MULTILINE)
    assert rows, REFERENCE
    return {name for name, text in rows if not text.startswith("Deprecated")}


def metrics_of(queries: list[str]) -> set[str]:
    """Return the metrics in queries: histograms without the suffixes of their series, and no recording rules."""
    names = {name for query in queries for name in _NAME.findall(re.sub(r"\{[^}]*\}|by \([^)]*\)", "", query))}
    return {_base(name) for name in names}


def _base(name: str) -> str:
    known = exported()
    return next((name.removesuffix(end) for end in _SUFFIXES if name.removesuffix(end) in known), name)


def promtool() -> str:
    found = find_program("promtool") or shutil.which("promtool")
    if found is None:
        pytest.skip(f"{missing_program('promtool')}, or install prometheus")
    return str(found)


def check_values(directory: Path, series: list[Series], expected: dict[str, float]) -> None:
    """Fail if the sum of a query's samples after nine minutes is not the expected one."""
    (directory / "tests.yaml").write_text(promql_tests(series, "9m", expected))
    command = [promtool(), "test", "rules", str(directory / "tests.yaml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_rules_and_panels_use_metrics_that_are_exported() -> None:
    assert metrics_of([rule["expr"] for rule in rules()] + panel_queries()) - exported() == set()


def test_every_metric_is_on_a_panel_or_in_a_rule() -> None:
    """A new metric needs a panel in tools/dashboards/panels.py, a rule, or a reason in NOT_SHOWN."""
    shown = metrics_of([rule["expr"] for rule in rules()] + panel_queries())
    assert exported() - shown == NOT_SHOWN.keys()


def test_the_dashboards_are_those_of_their_panels() -> None:
    """`make dashboards` writes the dashboards, and the component contains each of them."""
    assert {file.name: file.read_text() for file in DIRECTORY.glob("*.json")} == dashboard_files()
    [generator] = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())["configMapGenerator"]
    assert set(generator["files"]) == dashboard_files().keys()


def test_panels_are_distinct_and_described() -> None:
    for text in dashboard_files().values():
        panels = json.loads(text)["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []


def test_the_names_of_series_are_labels_of_their_queries() -> None:
    """A legend may only use labels by which its query groups; ungrouped queries keep the labels of their series."""
    queries = [query for board in DASHBOARDS for row in board.rows for panel in row.panels for query in panel.queries]
    for query in queries:
        grouped = {label.strip() for text in re.findall(r" by \(([^)]*)\)", query.expr) for label in text.split(",")}
        named = set(re.findall(r"\{\{(\w+)\}\}", query.legend)) - set(re.findall(r'count_values\("(\w+)"', query.expr))
        assert named <= grouped or (not grouped and query.expr.startswith("topk")), query


def test_every_alert_has_a_severity_and_a_description() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 0
    for rule in alerts:
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_every_alert_is_in_the_guide() -> None:
    guide = (PROJECT / "docs/guides/monitoring.md").read_text()
    assert {rule["alert"] for rule in rules() if "alert" in rule} == set(re.findall(r"`(Zonewise\w+)`", guide))


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == {rule["alert"] for rule in rules() if "alert" in rule}


@pytest.mark.parametrize("query", [query for query in panel_queries() if re.match(r"sum by .*kueue_(?!.*\[)", query)])
def test_a_standby_replica_is_not_counted(query: str, tmp_path: Path) -> None:
    """Both replicas export the metrics of queues; a panel shows only the leader's."""
    [gauge, *nominal] = re.findall(r"kueue_\w+", query)
    series = [
        Series(f'{name}{{job="zonewise/zonewise-controller", instance="{instance}"}}', f"{number}x9")
        for instance, leads in (("a", 1), ("b", 0))
        for name, number in ((gauge, 6 + leads), *((name, 2) for name in nominal), ("zonewise_leader", leads))
    ]
    check_values(tmp_path, series, {query: 3.5 if nominal else 7})


@pytest.mark.parametrize("query", [query for query in panel_queries() if "node_" in query])
def test_node_exporter_on_the_same_nodes_is_not_counted(query: str, tmp_path: Path) -> None:
    """node-exporter exports metrics of the same names; a panel counts each port and link of a node once."""
    series = [
        Series(f'{name}{{job="{job}"}}', f"{8 if '_max_' in name else 2}x9")
        for job in ("zonewise/zonewise-agent", "node-exporter")
        for name in re.findall(r"node_(?:infiniband|pcidevice)_\w+", query)
    ]
    check_values(tmp_path, series, {query: 1})


@pytest.mark.parametrize("query", [query for query in panel_queries() if re.search(r"_total\S*\[1h\]", query)])
def test_a_panel_of_the_last_hour_counts_the_first_fault(query: str, tmp_path: Path) -> None:
    """A labelled counter has no series before its first increment, so its first sample is above 0."""
    [(name, selector)] = set(re.findall(r"(\w+_total)(?:{([^}]*)})?", query))
    job = "controller" if "=~" in selector else "scheduler"
    series = [Series(f'{name}{{job="zonewise/zonewise-{job}", reason="r"}}', "_x3 3x9")]
    check_values(tmp_path, series, {query: 3})


def test_the_first_misprediction_fires_an_alert(tmp_path: Path) -> None:
    """The series of a reason does not exist before its first misprediction."""
    [rule] = [rule for rule in rules() if rule.get("alert") == "ZonewiseMispredictions"]
    check_values(tmp_path, [Series('zonewise_mispredictions_total{reason="r"}', "_x3 1x9")], {rule["expr"]: 1})


@each_file
def test_every_alert_fires_and_recovers(file: Path, tmp_path: Path) -> None:
    """The rules are evaluated over a story for each alert: healthy, faulty, healthy again."""
    plain, tests = tmp_path / "rules.yaml", tmp_path / "tests.yaml"
    plain.write_text(yaml.safe_dump({"groups": groups_of(file)}))
    alerts = [rule["alert"] for group in groups_of(file) for rule in group["rules"] if "alert" in rule]
    tests.write_text(promtool_tests([str(plain)], alerts))
    result = subprocess.run([promtool(), "test", "rules", str(tests)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    panels = [{"record": f"panel:{index}", "expr": expr} for index, expr in enumerate(panel_queries())]
    groups = [group for file in RULES for group in groups_of(file)] + [{"name": "dashboard", "rules": panels}]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups}))
    checked = subprocess.run(
        [promtool(), "check", "rules", "--lint-fatal", str(file)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
