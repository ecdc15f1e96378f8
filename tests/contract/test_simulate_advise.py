"""`zonewise simulate --advise`: known results, one line for every mistake, output files, and an interruption."""

from __future__ import annotations

import json
from math import factorial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_runner import CliRunner
from zonewise_scheduler.commands import policy_run

if TYPE_CHECKING:
    from pathlib import Path

    from zonewise_scheduler.simulator.history import History

SERVICE, LOAD, JOBS = 100.0, 6.0, 6_000
"""Mean run time of a job in seconds; mean number of busy servers; number of jobs in the random queue."""


class Advising(CliRunner):
    """A directory, and the command that runs there on its files."""

    def log(self, jobs: list[tuple[float, float, int]], processors: int) -> str:
        """Write a log of jobs, each with submission, run time and width."""
        lines = [
            f"{number} {submitted} -1 {run} {width} -1 -1 {width} {run} -1 1 1 1 1 1 -1 -1 -1\n"
            for number, (submitted, run, width) in enumerate(jobs, 1)
        ]
        return self.write("log.swf", f"; MaxProcs: {processors}\n{''.join(lines)}")

    def smallest(self, *arguments: object, status: int = 0) -> Any:
        """Return the smallest value in the JSON document, which contains the curve."""
        printed = self.run(*arguments, "--json")
        assert (printed.status, printed.err) == (status, "")
        document = json.loads(printed.out)
        curve = document["curve"]
        assert [point["value"] for point in curve] == sorted(point["value"] for point in curve)
        met = [point["value"] for point in curve if point["met"]]
        assert document["smallest"] == min(met, default=None)
        return document["smallest"]


@pytest.fixture
def advising(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Advising:
    monkeypatch.delenv("COLUMNS", raising=False)
    return Advising(tmp_path, capsys, "simulate")


@pytest.mark.parametrize(("seconds", "processors"), [(0, 12), (100, 6), (200, 4), (300, 3), (500, 2), (1100, 1)])
@pytest.mark.parametrize("present", [1, 5, 100])
def test_a_batch_of_equal_jobs(advising: Advising, seconds: int, processors: int, present: int) -> None:
    """Twelve simultaneous jobs of 100 s on m processors: the last starts after ceil(12 / m) - 1 rounds."""
    log = advising.log([(0, 100, 1)] * 12, present)
    assert advising.smallest(log, "--advise", "nodes", "--goal", f"longest wait <= {seconds}s") == processors


def test_a_share_of_the_jobs(advising: Advising) -> None:
    """On m processors, m of twenty jobs start at once: 95 % of the jobs need 19 processors, 50 % need ten."""
    log = advising.log([(0, 100, 1)] * 20, 20)
    for share, processors in (("p95", 19), ("p50", 10), ("p51", 11), ("p100", 20), ("longest", 20)):
        assert advising.smallest(log, "--advise", "nodes", "--goal", f"{share} wait <= 99s") == processors


def test_a_random_queue_needs_the_processors_of_erlangs_formula(advising: Advising) -> None:
    """M/M/c: the mean wait is C(c, a) * service / (c - a). The bound is between those of 8 and of 7 processors."""
    random = Random(7)
    now, jobs = 0.0, list[tuple[float, float, int]]()
    for _ in range(JOBS):
        now += random.expovariate(LOAD / SERVICE)
        jobs.append((now, random.expovariate(1 / SERVICE), 1))
    bound = (erlang_wait(7) * erlang_wait(8)) ** 0.5
    assert erlang_wait(7) > 2 * erlang_wait(8)
    log = advising.log(jobs, 16)
    arguments = ("--policy", "greedy", "--advise", "nodes", "--goal", f"mean wait <= {bound:.1f}s")
    assert advising.smallest(log, *arguments) == 8


def erlang_wait(servers: int) -> float:
    """Return the mean wait in seconds (Erlang, 1917)."""
    last = LOAD**servers / factorial(servers) * servers / (servers - LOAD)
    delayed = last / (sum(LOAD**busy / factorial(busy) for busy in range(servers)) + last)
    return delayed * SERVICE / (servers - LOAD)


def cluster(queues: dict[str, int], jobs: int) -> str:
    """Return objects: for each queue a ClusterQueue, a LocalQueue and `jobs` finished Jobs of 100 s, and one flavor."""
    quota = "{cpu: %d}"
    documents = ["apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: f}\nspec: {}\n"]
    for name, cpus in queues.items():
        quotas = f"flavors: [{{name: f, resources: [{{name: cpu, nominalQuota: {cpus}}}]}}]"
        groups = f"namespaceSelector: {{}}\n  resourceGroups:\n  - coveredResources: [cpu]\n    {quotas}"
        head = "apiVersion: kueue.x-k8s.io/v1beta2\nkind:"
        documents.append(f"{head} ClusterQueue\nmetadata: {{name: {name}}}\nspec:\n  {groups}\n")
        metadata = f"metadata: {{name: {name}, namespace: n}}"
        documents.append(f"{head} LocalQueue\n{metadata}\nspec: {{clusterQueue: {name}}}\n")
        documents += [
            f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}-{number}, namespace: n, "
            f'creationTimestamp: "2026-01-01T00:00:00Z", labels: {{kueue.x-k8s.io/queue-name: {name}}}}}\n'
            f"spec: {{activeDeadlineSeconds: 100, template: {{spec: {{containers: "
            f"[{{name: m, resources: {{requests: {quota % 1}}}}}]}}}}}}\n"
            f'status: {{startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:01:40Z", succeeded: 1}}\n'
            for number in range(jobs)
        ]
    return "---\n".join(documents)


def test_the_quota_of_one_queue(advising: Advising) -> None:
    """Only the quota of its own queue determines the waits of gpu."""
    objects = advising.write("cluster.yaml", cluster({"gpu": 2, "wide": 2}, 12))
    goal = ("--goal", "longest wait of queue gpu <= 200s")
    assert advising.smallest(objects, "--advise", "quota:gpu:cpu:f", *goal) == 4
    assert advising.smallest(objects, "--advise", "quota:gpu", *goal) == 4
    assert advising.smallest(objects, "--advise", "quota:wide", *goal, status=1) is None


def test_a_smaller_quota_of_another_queue(advising: Advising) -> None:
    """Jobs of b start on the nodes that the quota of a leaves; with its present quota, a takes them all for a while."""
    queues = [{"name": name, "share": 1} for name in ("a", "b")]
    jobs = [{"name": name, "queue": name, "count": 8, "at": at, "run": 100} for name, at in (("a", 0), ("b", 1))]
    trace = advising.write("jobs.json", json.dumps({"nodes": "8x1", "queues": queues, "jobs": jobs}))
    arguments = (trace, "--advise", "quota:a", "--goal", "p50 wait of queue b <= 10s")
    printed = advising.run(*arguments)
    assert printed.out.splitlines()[-3:] == [
        "The smallest simulated value that meets the goal: quota of a, cpu 1.",
        "It is the lowest value of the search.",
        "Starts are not monotone: above it 8, 16, 32, 64, 128, 256, 512 missed again.",
    ]
    assert printed.status == 0


def test_the_threshold_of_reservations(advising: Advising) -> None:
    """Narrow jobs delay a wide one forever, unless it has a reservation; then it starts after the threshold."""
    narrow = [(30.0 * 60 * number, 3600.0, 1) for number in range(400)]
    log = advising.log([*narrow, (1.0, 3600.0, 2)], 2)
    assert advising.smallest(log, "--advise", "reserve-after", "--goal", "longest wait <= 5h") == 900
    printed = advising.run(log, "--advise", "reserve-after", "--goal", "longest wait <= 1m")
    assert (printed.status, printed.out.splitlines()[-1]) == (
        1, "No simulated value from 15m to 336h meets the goal.",
    )  # fmt: skip


def test_jobs_of_a_mix_do_not_depend_on_the_number_of_nodes(advising: Advising) -> None:
    arguments = ("hpc", "--jobs", 60, "--nodes", "8x4", "--advise", "nodes", "--goal", "longest wait <= 0s")
    printed = advising.run(*arguments)
    assert printed.status == 0
    assert printed.out.startswith("hpc: longest wait <= 0s, 60 jobs, policy shortest-reserving\n\nnodes  longest wait")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--advise", "nodes"], "--advise and --goal must be used together: write --advise nodes --goal"),
        (["--goal", "p95 wait <= 1h"], "--advise and --goal must be used together"),
        (["--advise", "memory", "--goal", "p95 wait <= 1h"], "'memory' is not a setting: write nodes, reserve"),
        (["--advise", "nodes:3", "--goal", "p95 wait <= 1h"], "'nodes:3' is not a setting"),
        (["--advise", "quota:", "--goal", "p95 wait <= 1h"], "'quota:' is not a setting"),
        (["--advise", "nodes", "--goal", "fast"], "'fast' is not a goal: write STATISTIC wait"),
        (["--advise", "nodes", "--goal", "p95 wait <= soon"], "'soon' is not a duration, such as 90s"),
        (["--advise", "nodes", "--goal", "p95 wait <= never"], "'never' is not a finite duration, such as 90s"),
        (["--advise", "nodes", "--goal", "p95 wait of queue q <= 1h"],
         "--goal 'p95 wait of queue q <= 1h': no job of queue q: the trace names none"),
        (["--advise", "quota", "--goal", "p95 wait <= 1h"], "a log on one pool has no queues: write --advise nodes"),
        (["--advise", "nodes", "--goal", "p95 wait <= 1h", "--compare", "easy,fifo"], "--compare does not work with"),
        (["--advise", "nodes", "--goal", "p95 wait <= 1h", "--forecast"], "--forecast does not work with --advise"),
        (["--advise", "reserve-after", "--goal", "p95 wait <= 1h", "--policy", "easy"], "remove --policy"),
        (["--advise", "nodes", "--goal", "p95 wait <= 1h", "--plot", "a.pdf"], "pictures are .svg or .png"),
    ],
)  # fmt: skip
def test_mistakes(advising: Advising, arguments: list[str], message: str) -> None:
    assert message in advising.usage_error(advising.log([(0, 1, 1)], 1), *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hpc"], "--advise nodes: set the present number too, such as --nodes 64x48x256Gi"),
        (["hpc", "--nodes", "demo.yaml"], "demo.yaml"),
        (["-", "--nodes", "4x4"], "standard input"),
        (["--replay", "a.jsonl"], "--advise needs a TRACE, and does not work with --replay"),
    ],
)
def test_sources_that_cannot_be_searched(advising: Advising, arguments: list[str], message: str) -> None:
    assert message in advising.usage_error(*arguments, "--advise", "nodes", "--goal", "p95 wait <= 1h")


def test_files(advising: Advising, tmp_path: Path) -> None:
    """The curve is written as a picture and as JSON, and the table as usual."""
    log = advising.log([(0, 100, 1)] * 4, 4)
    arguments = ("--advise", "nodes", "--goal", "longest wait <= 100s")
    printed = advising.run(log, *arguments, "--plot", tmp_path / "a.svg", "--json", tmp_path / "a.json")
    assert (printed.status, printed.err) == (0, "")
    assert "The smallest simulated value that meets the goal: processors 2." in printed.out
    assert "the smallest: 2" in (tmp_path / "a.svg").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["smallest"] == 2


def test_an_interruption_leaves_no_file(advising: Advising, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interruption occurs during the third simulation."""
    calls: list[int] = []
    original = policy_run.run_policy

    def interrupted(*arguments: Any) -> History:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(policy_run, "run_policy", interrupted)
    log = advising.log([(0, 100, 1)] * 4, 4)
    goal = ("--advise", "nodes", "--goal", "longest wait <= 100s")
    printed = advising.run(log, *goal, "--plot", tmp_path / "a.svg", "--json", tmp_path / "a.json")
    assert (printed.status, printed.out, printed.err) == (130, "", "zonewise: interrupted\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.swf"]
