"""The tutorials are correct: their commands run, and print the output on the pages (support/tutorials.py).

Each page about a cluster has a separate `zonewise up` in this process, so that forecasts learn only from its jobs. With
ZONEWISE_RENEW_GUIDES=1, the run rewrites the pages. The page about a laptop has a separate process, and is fast.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING

import pytest
import yaml

from support.console_guide import ConsoleStep, console_steps, form
from support.kueue_cluster import kueue_cluster
from support.programs import Watched, find_program, missing_program
from support.snapshots import PROJECT
from support.tutorial_actions import end_by_fault, write_capture
from support.tutorials import Commands, run_tutorial
from support.waiting import PATIENCE, pause
from zonewise_sandbox.up.cluster import ClusterOptions, open_cluster
from zonewise_sandbox.up.kubeconfig import kubeconfig
from zonewise_sandbox.up.node_descriptions import parse_nodes
from zonewise_sandbox.up.node_kinds import NODE_KINDS
from zonewise_sandbox.up.summary import cluster_summary
from zonewise_scheduler.controller.planning.forecaster import Forecaster
from zonewise_scheduler.controller.status import pending_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zonewise_sandbox.up.cluster import Cluster

KUBECTL = find_program("kubectl") or shutil.which("kubectl")
TUTORIALS = PROJECT / "docs/tutorials"
CAPTURE = TUTORIALS / "node-7.tar.gz"
LAPTOP = (TUTORIALS / "laptop.md").read_text()
NODES = "2xdgx-h100"
PAGES = ("first-cluster", "mpi-nccl", "post-mortem", "from-nfd-gfd", "from-slurm")
KUBECONFIG = "zonewise.kubeconfig"
OFF_THE_BUS, OUT_OF_BOUNDS = 79, 31
"""XIDs of a hardware fault and of a program error (NVIDIA XID catalogue)."""
UP = f"zonewise up --nodes {NODES} --write-kubeconfig {KUBECONFIG}"

pytestmark = pytest.mark.skipif(KUBECTL is None, reason=missing_program("kubectl"))


# --- the pages of a cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Yield a cluster like that of the pages, but with forecasts each second, and explanations without delay."""
    defaults = Forecaster.__init__.__kwdefaults__
    assert defaults is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "period", 1.0)
        patch.setattr(pending_notes, "MIN_WAIT", 0.0)
        with open_cluster(ClusterOptions(parse_nodes(NODES))) as running:
            yield running


@pytest.fixture
def commands(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Commands:
    """Return the context in which the commands of a page are run."""

    def start() -> str:
        (tmp_path / KUBECONFIG).write_text(kubeconfig(cluster.url))
        said = cluster_summary(parse_nodes(NODES), cluster, KUBECONFIG, 1.4, "", "zonewise")
        said = said.replace(cluster.url, "http://127.0.0.1:8001").replace(cluster.status_url, "http://127.0.0.1:9821/")
        return said.partition("\nIn another terminal")[0]

    def end_by(code: int) -> str:
        end_by_fault(cluster.config, "train", code)
        return ""

    played: dict[str, Callable[[], str]] = {
        UP: start,
        "a GPU fails": lambda: end_by(OFF_THE_BUS),
        "the program fails": lambda: end_by(OUT_OF_BOUNDS),
    }
    shutil.copy(CAPTURE, tmp_path)
    return Commands(tmp_path, played, monkeypatch, capsys)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_a_cluster(page: str, commands: Commands) -> None:
    run_tutorial(TUTORIALS / f"{page}.md", commands)


def test_the_capture_is_that_of_a_server(tmp_path: Path) -> None:
    """The command that writes it is in support/tutorial_actions.py."""
    write_capture(tmp_path / CAPTURE.name, tmp_path / "server")
    assert members(CAPTURE) == members(tmp_path / CAPTURE.name)


def members(archive: Path) -> dict[str, tuple[str, bytes]]:
    """Return the target of the link and the content of each file in an archive."""
    with tarfile.open(archive) as files:
        return {entry.name: (entry.linkname, _content(files, entry)) for entry in files}


def _content(files: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = files.extractfile(entry) if entry.isfile() else None
    return file.read() if file else b""


def test_a_generated_name_may_look_like_a_duration() -> None:
    shown = "train-1-x7k2b   Running, for 8s"
    assert (
        form("train-1-99d5d   Running, for 1m31s") == form(shown) == [["train-1-SUFFIX", "Running,", "for", "DURATION"]]
    )


def test_every_tutorial_is_run() -> None:
    assert {file.stem for file in TUTORIALS.glob("*.md")} == {*PAGES, "from-kueue", "laptop"}


# --- from Kueue


def test_the_queues_of_kueue_are_adopted_and_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scale = "kubectl scale -n kueue-system deployment kueue-controller-manager --replicas"
    with kueue_cluster() as cluster:
        (tmp_path / KUBECONFIG).write_text(kubeconfig(cluster.url))
        monkeypatch.setenv("KUBECONFIG", KUBECONFIG)

        def scaled(change: Callable[[], None]) -> str:
            change()
            return "deployment.apps/kueue-controller-manager scaled\n"

        played = {
            f"{scale} 0": lambda: scaled(cluster.stop_kueue),
            f"{scale} 1": lambda: scaled(cluster.start_kueue),
        }
        run_tutorial(TUTORIALS / "from-kueue.md", Commands(tmp_path, played, monkeypatch, capsys))


# --- a cluster on a laptop


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


def _check(step: ConsoleStep, directory: Path, environment: dict[str, str]) -> None:
    """Run a command; repeat one that only reads until it prints the shown output, which may end with a forecast."""
    started = time.monotonic()
    reads = step.command.startswith("kubectl get")
    while True:
        output = _run(step.command, directory, environment)
        if form(re.sub(r"; starts about [^;]*$", "", output)) == form(step.output):
            return
        waited = time.monotonic() - started
        assert reads, f"$ {step.command}\n{output}"
        assert waited < PATIENCE / 4, f"$ {step.command}\n{output}"
        pause(waited)


def test_a_cluster_on_a_laptop(tmp_path: Path) -> None:
    """The commands run from the start of the cluster to its end."""
    [shown] = re.findall(r"```yaml\n(.*?)```", LAPTOP, re.DOTALL)
    (tmp_path / "train.yaml").write_text(shown)
    start, export, *others = console_steps(LAPTOP)
    environment = {**os.environ, "PATH": f"{os.path.dirname(KUBECTL or '')}:{os.environ['PATH']}"}
    up = _Up(tmp_path, start.command)
    try:
        assert form(up.said)[: len(form(start.output))] == form(start.output)
        name, _, value = export.command.removeprefix("export ").partition("=")
        for step in others:
            _check(step, tmp_path, {**environment, name: value})
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(60) == 0
    finally:
        up.process.kill()
        up.process.wait()
    assert not (tmp_path / value).exists()


def test_the_manifest_is_a_job() -> None:
    """Each edit of the page's `sed` command finds a line to change."""
    [shown] = re.findall(r"```yaml\n(.*?)```", LAPTOP, re.DOTALL)
    job = yaml.safe_load(shown)
    assert job["kind"] == "Job"
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 8
    [edit] = [step.command for step in console_steps(LAPTOP) if step.command.startswith("sed ")]
    patterns: list[str] = re.findall(r"-e 's/(.+?)/", edit)
    assert len(patterns) == 4
    assert all(re.search(pattern, shown, re.MULTILINE) for pattern in patterns)


def test_other_clusters_are_of_kinds_that_exist() -> None:
    named = re.findall(r"\| `zonewise up ([^`]+)`", LAPTOP)
    assert len(named) >= 5
    for arguments in named:
        for kind in re.findall(r"\d+x([a-z][a-z0-9-]+)(?=[,` ]|$)", arguments):
            assert kind in NODE_KINDS
