"""The README is true: its commands run, its targets exist, the files that it names are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from demo.burst import idle_node
from demo.machine import GPU
from support.snapshots import PROJECT
from zonewise.cli import main
from zonewise.machine.collector import Collector, NoData
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.reader import Reader

README = (PROJECT / "README.md").read_text()


def test_every_command_of_the_table_runs(tmp_path: Path) -> None:
    """The commands, in the order in which the README lists them, end with status 0 and without a word of error."""
    commands = re.findall(r"^\| `zonewise ([^`]+)`", README, re.MULTILINE)
    assert len(commands) >= 9
    for command in commands:
        answer = subprocess.run(
            [sys.executable, "-m", "zonewise", *command.split()],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "NODE_NAME": "node-7"},
            timeout=60,
        )
        assert (answer.returncode, answer.stderr) == (0, ""), command


def test_every_target_exists() -> None:
    """Each `make` that the README names is a target of the Makefile that `make help` explains."""
    targets = set(re.findall(r"^([a-z-]+):.*## ", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", README))
    assert named >= {"show", "test", "check", "bench", "install"}
    assert named <= targets


def test_every_file_of_the_house_exists() -> None:
    """The picture of the house in words names files and folders that are there."""
    house = README.split("```\nagent/zonewise/\n")[1].split("```")[0]
    names = re.findall(r"^ +((?:[a-z]+(?:/|\.py) ?)+)", house, re.MULTILINE)
    paths = [name for group in names for name in group.split()]
    assert len(paths) >= 10
    agent = PROJECT / "agent" / "zonewise"
    scheduler = PROJECT / "scheduler" / "zonewise_scheduler"
    parents = [agent, *(agent / name for name in ("machine", "kubelet", "kube")), scheduler]
    parents += [scheduler / name for name in ("fit", "queue", "simulate")]
    assert [path for path in paths if not any((parent / path).exists() for parent in parents)] == []


def test_what_is_foretold(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's two pods, asked of the demonstration's node, get the answers that it prints."""
    monkeypatch.chdir(tmp_path)
    Path("node-7.yaml").write_text(yaml.safe_dump(idle_node("node-7")))
    wishes = {"train": {"cpu": "16", "memory": "24Gi", GPU: "2"}, "wide": {"cpu": "36", "memory": "1Gi"}}
    for name, limits in wishes.items():
        container = {"name": "main", "resources": {"limits": limits}}
        Path(f"{name}.yaml").write_text(yaml.safe_dump({"kind": "Pod", "spec": {"containers": [container]}}))
    told = re.findall(r"\$ zonewise (foretell .+)\n((?:node-7 .+\n)(?:  .+\n)*)", README)
    assert len(told) == 2
    for command, answer in told:
        main(command.split())
        assert capsys.readouterr().out == answer


def test_the_collector_of_the_readme_is_one() -> None:
    """The example of how to add a collector is a collector that runs."""
    code = README.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {"Collector": Collector, "NoData": NoData, "Reader": Reader, "Machine": Machine}
    exec(code, names)  # noqa: S102 -- the README's own code
    example = names["COLLECTOR"]
    assert isinstance(example, Collector)
    assert set(example.provides) == {example.name}
    with pytest.raises(NoData, match="no RAPL"):
        example.collect(Reader(MemoryFiles([])), Machine())
