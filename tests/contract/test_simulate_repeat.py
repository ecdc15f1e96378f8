"""`zonewise simulate --repeat`: many runs in several processes, their means, and their errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_runner import CliRunner
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MIX = ("hpc", "--nodes", "4x8", "--jobs", "30")
_MAIN = """\
import signal, sys
from zonewise.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
if __name__ == "__main__":
    sys.exit(main())"""
"""SIGINT as in a terminal: processes that a shell starts in the background, such as these tests, ignore it."""


@pytest.fixture
def simulating(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CliRunner:
    return CliRunner(tmp_path, capsys, "simulate")


def document(simulating: CliRunner, *arguments: object) -> Any:
    printed = simulating.run(*MIX, *arguments, "--json")
    assert (printed.status, printed.err) == (0, "")
    return json.loads(printed.out)


def test_the_results_are_the_same_for_any_number_of_processes(simulating: CliRunner) -> None:
    sweep = ("--repeat", 2, "--compare", "easy,greedy", "--loads", "0.5,0.9", "--seed", 4)
    alone, together = document(simulating, *sweep), document(simulating, *sweep, "--jobs-parallel", 3)
    assert alone == together
    assert [(column["policy"], column["load"], column["runs"]) for column in alone["results"]] == [
        ("easy", 0.5, 2), ("greedy", 0.5, 2), ("easy", 0.9, 2), ("greedy", 0.9, 2),
    ]  # fmt: skip
    assert alone["scenario"]["seeds"] == [4, 5]


def test_a_run_is_the_simulation_of_its_seed(simulating: CliRunner) -> None:
    """Each seed gives different results."""
    runs = document(simulating, "--repeat", 2, "--policy", "easy")["runs"]
    means = [run["statistics"]["waitMean"] for run in runs]
    assert means == [
        document(simulating, "--policy", "easy", "--seed", seed)["results"][0]["summary"]["waitMean"] for seed in (0, 1)
    ]
    assert means[0] != means[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--repeat", "2", "--forecast"), "--forecast does not work with --repeat"),
        (("--jobs-parallel",), "--jobs-parallel works only with --repeat"),
        (("--loads", "0.5"), "--loads works only with --repeat"),
        (("--repeat", "2", "--inputs", "/traces"), "--inputs works only with --on-cluster or --gather"),
        (("--repeat", "2", "--nodes", "-"), "--repeat reads --nodes once for each run: use a file, not -"),
        (("--repeat", "2", "--loads", "0.5", "--load", "1"), "--load and --loads set the same value"),
    ],
)
def test_mistakes(simulating: CliRunner, arguments: tuple[str, ...], message: str) -> None:
    printed = simulating.run(*MIX, *arguments)
    assert (printed.status, printed.out) == (2, "")
    assert message in printed.err


def test_a_log_on_one_pool_has_no_seeds(simulating: CliRunner) -> None:
    log = simulating.write("log.swf", "; MaxProcs: 8\n1 0 -1 9 8 -1 -1 8 9 -1 1 1 1 1 1 -1 -1 -1\n")
    printed = simulating.run(log, "--repeat", 2)
    assert (printed.status, printed.out) == (2, "")
    assert "--repeat: a log on one pool draws no random numbers" in printed.err


def test_interrupted(tmp_path: Path) -> None:
    """The status is the one that shells expect, no incomplete file is left, and finished runs are counted."""
    script = tmp_path / "main.py"
    script.write_text(_MAIN)
    command = [sys.executable, str(script), "simulate", "hpc", "--repeat", "2", "--json", str(tmp_path / "out.json")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        eventually(lambda: len(_words(children)) > 1)  # the resource tracker, and a worker
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (128 + signal.SIGINT, "")
    assert err == "zonewise: 0 of 2 runs were done; no means are printed\nzonewise: interrupted\n"
    assert not (tmp_path / "out.json").exists()


def _words(path: str) -> list[str]:
    with open(path, encoding="ascii") as file:
        return file.read().split()
