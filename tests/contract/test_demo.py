"""`make demo-agent` runs, and its output is correct: pods reduce the available resources, and return all at the end."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from support.snapshots import PROJECT

_ROW = re.compile(r" *([\d.]+) s (.{43}) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) ")


@pytest.fixture(scope="module")
def shown() -> str:
    answer = subprocess.run(
        [sys.executable, "-m", "demo"], cwd=PROJECT, check=False, capture_output=True, text=True, timeout=300
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


def test_every_step_is_seen_at_the_api_server(shown: str) -> None:
    """The available resources drop by a pod's CPUs, GPUs and memory when it starts, and return when it ends."""
    free = {match[2].strip(): [int(number) for number in match.groups()[2:]] for match in _ROW.finditer(shown)}
    before = free["the agent starts"]
    assert before == [31, 4, 64, 32, 4, 64]
    after = free["train-0 starts: 12 CPUs, 24 GiB, 2 GPUs"]
    assert [one - two for one, two in zip(before, after, strict=True)] == [12, 2, 24, 0, 0, 0]
    assert free["too-big starts: 40 CPUs, 8 GiB: rejected"] == free["prep starts: 4 CPUs, 8 GiB"]
    assert free["both-zones ends"] == before


def test_each_change_is_one_small_patch(shown: str) -> None:
    count, size = re.findall(r"(\d+) patches of (\d+) bytes", shown)[0]
    assert int(count) == 12
    assert int(size) < 1200


def test_a_burst(shown: str) -> None:
    """With zones, no pod is rejected, and at least as many run as with nodes, where kubelets reject some."""
    counts = re.findall(r"by (nodes|zones): (\d+) run, (\d+) rejected by their kubelet, (\d+) pending", shown)
    (_, *by_nodes), (_, *by_zones) = [(name, *map(int, numbers)) for name, *numbers in counts]
    assert sum(by_nodes) == sum(by_zones) == 16
    assert by_zones[1] == 0 < by_nodes[1]
    assert by_zones[0] >= by_nodes[0]


def test_the_page_shows_the_burst(shown: str) -> None:
    """The page shows the same lines."""
    burst = shown[shown.index("A burst on ") :].strip()
    assert burst in (PROJECT / "docs/start.md").read_text()


def test_the_page_shows_the_steps(shown: str) -> None:
    """The page shows the same steps with the same amounts."""
    page = (PROJECT / "docs/start.md").read_text()
    text = page.split("$ make demo-agent\n")[1].split("```")[0]
    rows = [[match.groups()[1:] for match in _ROW.finditer(part)] for part in (text, shown)]
    assert len(rows[0]) == 14
    assert rows[0] == rows[1]
