"""Records of ended runs that a controller process writes, and what `zonewise report` makes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.live_cluster import JOBS
from support.live_clusters import cluster, real_cluster, simulated_cluster
from support.waiting import eventually
from zonewise.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from support.live_cluster import LiveCluster

__all__ = ["cluster", "real_cluster", "simulated_cluster"]


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main(["report", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_each_ended_run_is_recorded_once(
    cluster: LiveCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files and the log of two controllers in turn have the same runs, also of a Job that was deleted at a stop."""
    cluster.add_nodes(1)
    cluster.add_queue(8)
    flags = ("--accounting-directory", str(tmp_path / "records"), "--log-format", "json")
    with cluster.controller(*flags) as first:
        cluster.submit("done", 2, pods=2, run=0.1)
        eventually(lambda: cluster.is_complete("done"))
        cluster.submit("cancelled", 4)
        eventually(lambda: cluster.running_pods("cancelled"))
        eventually(lambda: first.said.count("recordVersion") == 1)
        cluster.api.delete(f"{JOBS}/cancelled", propagationPolicy="Background").ok()
        eventually(lambda: first.said.count("recordVersion") == 2)
        assert first.terminate() == 0
    with cluster.controller(*flags) as second:
        cluster.submit("later", 8, run=0.1)
        eventually(lambda: cluster.is_complete("later"))
        eventually(lambda: second.said.count("recordVersion") == 1)
        assert second.terminate() == 0
    (tmp_path / "log").write_text(first.said + second.said)
    for source in ("records", "log"):
        runs = report(capsys, "--jobs", str(tmp_path / source))
        assert {(run["name"], run["outcome"]) for run in runs} == {
            ("done", "succeeded"), ("cancelled", "cancelled"), ("later", "succeeded"),
        }  # fmt: skip
        assert len(runs) == 3
