"""Writes manifests/components/dashboard/*.json: `python -m tools.dashboards`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.dashboards.panels import DASHBOARDS, Dashboard, Panel, Row

DIRECTORY = Path(__file__).resolve().parents[2] / "manifests" / "components" / "dashboard"
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
"""Size of a panel in Grafana's grid, which is 24 wide, and panels per row."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


def dashboard_files() -> dict[str, str]:
    """Return the JSON of each dashboard by file name."""
    return {f"{board.name}.json": json.dumps(_dashboard(board), indent=1) + "\n" for board in DASHBOARDS}


def _dashboard(board: Dashboard) -> Json:
    panels: list[Json] = []
    y = 0
    for row in board.rows:
        panels.append(_row(row, len(panels) + 1, y))
        for index, panel in enumerate(row.panels):
            x, line = index % _COLUMNS * _WIDTH, index // _COLUMNS
            panels.append(_panel(panel, len(panels) + 1, x, y + 1 + line * _HEIGHT))
        y += 1 + -(-len(row.panels) // _COLUMNS) * _HEIGHT
    source: Json = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    }
    return {
        "title": board.title,
        "uid": board.name,
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "tags": ["zonewise", "kubernetes"],
        "timezone": "",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{**source, "hide": 0}]},
        "panels": panels,
    }


def _row(row: Row, number: int, y: int) -> Json:
    position = {"x": 0, "y": y, "w": 24, "h": 1}
    return {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": position, "panels": []}


def _panel(panel: Panel, number: int, x: int, y: int) -> Json:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"expr": query.expr, "legendFormat": query.legend, "refId": chr(ord("A") + index), "datasource": _SOURCE}
            for index, query in enumerate(panel.queries)
        ],
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi"},
        },
    }


def main() -> int:
    """Write the dashboards."""
    for name, text in dashboard_files().items():
        (DIRECTORY / name).write_text(text)
        sys.stderr.write(f"wrote {(DIRECTORY / name).relative_to(DIRECTORY.parents[2])}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
