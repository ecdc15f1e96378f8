"""Tutorials are true: their commands run, and print what the page shows.

A command that reads is repeated until its output is as shown, since a cluster needs a moment. Ages, ports, seconds and
generated names are compared by their form alone.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from support.programs import Watched, find_program, missing_program
from support.snapshots import PROJECT
from support.waiting import PATIENCE, pause
from zonewise_sandbox.up.node_kinds import NODE_KINDS

if TYPE_CHECKING:
    from pathlib import Path

KUBECTL = find_program("kubectl") or shutil.which("kubectl")
LAPTOP = (PROJECT / "docs/tutorials/laptop.md").read_text()

_FORMS = (
    (r"https?://127\.0\.0\.1:\d+", "URL"),
    (r"\b(\d{4}-\d\d-\d\d )?\d\d:\d\d UTC", "TIME"),
    (r"\b\d+(\.\d+)? s\b", "SECONDS"),
    (r"\b(\d+[dhms])+(?=\s|$)", "AGE"),
    (r"\b(job-[a-z]+)-[0-9a-f]{5}\b", r"\1-ID"),
    (r"\s+", " "),
)
"""Parts that differ from run to run, and what stands for each."""


class Step(NamedTuple):
    """A command of a page, and the output that the page shows."""

    command: str
    output: str


def steps(page: str) -> list[Step]:
    """Return the commands of a page in their order."""
    result: list[Step] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = text.partition("\n")
            result.append(Step(command, output))
    return result


def form(output: str) -> str:
    """Return an output without what differs from run to run."""
    for pattern, replacement in _FORMS:
        output = re.sub(pattern, replacement, output)
    return output.strip()


class _Up(Watched):
    def __init__(self, directory: Path, command: str) -> None:
        log = directory / "up.log"
        arguments = [sys.executable, "-m", *command.split(), "--port", "0", "--status-port", "0"]
        with log.open("wb") as output:
            process = subprocess.Popen(arguments, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        super().__init__(process, log)
        self.until(lambda: "Ctrl-C ends" in self.said)


def _run(command: str, directory: Path, environment: dict[str, str]) -> str:
    process = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return process.stdout + process.stderr


def _check(step: Step, directory: Path, environment: dict[str, str]) -> None:
    """Run a command; one that reads is repeated until it prints what is shown."""
    started = time.monotonic()
    reads = step.command.startswith("kubectl get")
    while True:
        output = _run(step.command, directory, environment)
        if form(output) == form(step.output):
            return
        waited = time.monotonic() - started
        assert reads, f"$ {step.command}\n{output}"
        assert waited < PATIENCE / 4, f"$ {step.command}\n{output}"
        pause(waited)


@pytest.mark.skipif(KUBECTL is None, reason=missing_program("kubectl"))
def test_a_cluster_on_a_laptop(tmp_path: Path) -> None:
    """From the start of the cluster to its end."""
    [shown] = re.findall(r"```yaml\n(.*?)```", LAPTOP, re.DOTALL)
    (tmp_path / "train.yaml").write_text(shown)
    start, export, *others = steps(LAPTOP)
    environment = {**os.environ, "PATH": f"{os.path.dirname(KUBECTL or '')}:{os.environ['PATH']}"}
    up = _Up(tmp_path, start.command)
    try:
        assert form(up.said).startswith(form(start.output))
        name, _, value = export.command.removeprefix("export ").partition("=")
        for step in others:
            _check(step, tmp_path, {**environment, name: value})
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(60) == 0
    finally:
        up.process.kill()
        up.process.wait()
    assert not (tmp_path / value).exists()


def test_the_job_is_a_job() -> None:
    """And its other form differs by what the text says."""
    [shown] = re.findall(r"```yaml\n(.*?)```", LAPTOP, re.DOTALL)
    job = yaml.safe_load(shown)
    assert job["kind"] == "Job"
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 8
    [edit] = [step.command for step in steps(LAPTOP) if step.command.startswith("sed ")]
    assert edit.count(" -e ") == 3


def test_other_clusters_are_of_kinds_that_exist() -> None:
    named = re.findall(r"\| `zonewise up ([^`]+)`", LAPTOP)
    assert len(named) >= 5
    for arguments in named:
        for kind in re.findall(r"\d+x([a-z][a-z0-9-]+)(?=[,` ]|$)", arguments):
            assert kind in NODE_KINDS
