"""docs/guides/fabric.md: its commands print what it shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from support.api import Api
from support.command_cluster import NRT_CRD
from support.console_guide import console_steps, form
from support.live_queue import KUEUE_CRDS
from support.snapshots import PROJECT
from zonewise.cli import main
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GUIDE = (PROJECT / "docs/guides/fabric.md").read_text()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster has two of the nodes in the guide's file."""
    [(name, content)] = re.findall(r'```text title="([^"]+)"\n(.*?)```', GUIDE, re.DOTALL)
    (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    with ApiServer(crds=[*sorted(KUEUE_CRDS.glob("*s.yaml")), NRT_CRD]) as server:
        for node in ("gpu01", "gpu05"):
            Api(server.url).post("/api/v1/nodes", {"metadata": {"name": node}}).ok()
        steps = console_steps(GUIDE)
        assert len(steps) == 2
        for step in steps:
            words = step.command.split()
            assert words[0] == "zonewise"
            assert main([*words[1:], "--api-server", server.url]) == 0
            assert form(capsys.readouterr().out) == form(step.output)
