"""`zonewise adopt` hands over the kinds of jobs that the controller's settings describe."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from support.live_queue import KUEUE_CRDS
from zonewise_common.cli.command import CommandError
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.commands import adopt
from zonewise_scheduler.controller.kueue import handover
from zonewise_scheduler.controller.kueue.handover import HandoverError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zonewise_scheduler.controller.jobs.interface import JobAdapter

KIND = """
- group: example.com
  version: v1
  kind: {kind}
  plural: trainings
  suspend: /spec/suspend
  podSets: [{{name: main, template: /spec/template}}]
  activePods: [/status/active]
  conditions: {{ready: Running, succeeded: Complete, failed: Failed}}
"""


def kinds_of(monkeypatch: pytest.MonkeyPatch, *flags: str) -> set[tuple[str, str]]:
    """Return the kinds of jobs that a handover reads."""
    kinds: set[tuple[str, str]] = set()

    def begin(_client: object, adapters: Mapping[tuple[str, str], JobAdapter], *_: object) -> None:
        kinds.update(adapters)
        raise HandoverError("enough is known")

    monkeypatch.setattr(handover, "Handover", begin)
    parser = ArgumentParser()
    adopt.add_arguments(parser)
    assert adopt.run(parser.parse_args(["--api-server", "http://127.0.0.1:1", *flags])) == 1
    return kinds


def test_kinds_of_the_settings_are_handed_over_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "controller.yaml"
    path.write_text(f"policy: greedy\njobKinds:{KIND.format(kind='Training')}")
    discovered = kinds_of(monkeypatch)
    assert {("batch", "Job"), ("trainer.kubeflow.org", "TrainJob")} <= discovered
    assert kinds_of(monkeypatch, "--config", str(path)) == discovered | {("example.com", "Training")}


@pytest.mark.parametrize("text", ["jobKinds: 7", "unknown: 1"])
def test_errors_name_invalid_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    path = tmp_path / "controller.yaml"
    path.write_text(text)
    with pytest.raises(CommandError, match=r"jobKinds|unknown"):
        kinds_of(monkeypatch, "--config", str(path))


def test_a_cluster_without_kueue_has_nothing_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    adopt.add_arguments(parser)
    with ApiServer() as server:
        assert adopt.run(parser.parse_args(["--api-server", server.url, "--dry-run"])) == 1
    assert "does not serve the kind ClusterQueue of kueue.x-k8s.io/v1beta2" in capsys.readouterr().err
    with ApiServer(crds=sorted(KUEUE_CRDS.glob("*s.yaml"))) as server:
        assert adopt.run(parser.parse_args(["--api-server", server.url, "--dry-run"])) == 0
    assert capsys.readouterr().out == "There is nothing to change.\n"
