"""The gangs of a talk on real servers, compared with the simulator: `python -m benchmarks.thousand_jobs`.

The scenario is demo/scenarios/thousand-jobs-paced.json, as in "Scale your Batch / AI Workloads beyond the Kubernetes
Scheduler". Jobs of 10 pods arrive faster than they end, and half of them fit at once. The simulator runs them first.
Then real servers run them: with the queue before kube-scheduler, with Kueue's manager or Volcano in its place, and with
only kube-scheduler. The peers run if they are available (kueue_manager.py, volcano_programs.py). The nodes are
simulated. No pod of a gang works before all pods of the gang run. A Job fails at its deadline, except with Volcano.

By default, the scale is a fifth of the Jobs and nodes, and time runs eight times as fast: each run takes 2 minutes.
`--scale 1 --speed 1` is the case in the talk, and takes 15 minutes per run.

The binaries of kube-apiserver, etcd, kube-controller-manager and kube-scheduler are needed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections import Counter
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.live_jobs import (
    ALONE,
    JOB_LABEL,
    QUEUE,
    TITLES,
    GangJob,
    Watch,
    absence,
    gang_jobs,
    job_manifest,
    present,
    running_servers,
    submitting,
)
from benchmarks.support.targets import Row, load_row, show, skip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.live_cluster import LiveCluster
    from zonewise_common.kube.client import Client

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

SCENARIO = PROJECT / "demo" / "scenarios" / "thousand-jobs-paced.json"
MAX_RATIO = 1.15
_GANGS = "job"
"""The group of the scenario that runs; the others are samples of single pods."""
_ALONE_FACTOR = 1.5
"""Without a queue, kube-scheduler is watched for this multiple of the simulated makespan."""
_LIMIT_FACTOR = 3.0
"""The queue is watched for at most this multiple of that makespan."""
_MOMENTS = 5
"""Number of times for which the number of finished Jobs is shown."""
_SAMPLES = 12
"""Number of samples, over the makespan, of the CPUs held by incomplete gangs."""


class Case(NamedTuple):
    """The Jobs, the nodes, and the simulated results."""

    jobs: list[GangJob]
    nodes: int
    cpus: int
    """CPUs of a node."""
    simulated: list[float]
    """Ends of the Jobs, after the first submission."""

    @property
    def makespan(self) -> float:
        """Return the simulated seconds from the first submission to the last end."""
        return max(self.simulated)


class ServiceResult(NamedTuple):
    """The results of one run on servers; times are in seconds after the first submission."""

    done: list[float]
    """Ends of the Jobs that have succeeded."""
    failed: int
    partial: float
    """Mean number of CPUs held by gangs of which not all pods ran."""


def scaled_scenario(content: Mapping[str, Any], scale: float, speed: float) -> Json:
    """Return the gangs of a scenario file at a smaller scale and a higher speed.

    There are fewer Jobs and nodes, and submissions are rarer in proportion; all times are shorter.
    """
    nodes: Json = content["nodes"]
    level: Json = nodes["levels"][0]
    group: Json = next(group for group in content["jobs"] if group["name"] == _GANGS)
    return {
        "name": content["name"],
        "nodes": {**nodes, "levels": [{**level, "count": round(level["count"] * scale)}]},
        "jobs": [
            {
                **group,
                "count": round(group["count"] * scale),
                "every": group["every"] / scale / speed,
                "requests": {"cpu": group["requests"]["cpu"]},
                "run": {"uniform": [bound / speed for bound in group["run"]["uniform"]]},
                "limit": group["limit"] / speed,
            }
        ],
    }


def read_case(content: Mapping[str, Any]) -> Case:
    """Return the Jobs of a scenario, and their simulated ends."""
    from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
    from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
    from zonewise_scheduler.simulator.inputs.fleet_file import read_fleet
    from zonewise_scheduler.simulator.inputs.job_file import read_job_file
    from zonewise_scheduler.simulator.latency import NO_LATENCY

    fleet = read_fleet(content["nodes"], SCENARIO.name)
    scenario = read_job_file(content, SCENARIO.name, fleet)
    history = simulate_cluster(scenario, policy_named(DEFAULT_POLICY), NO_LATENCY)
    assert all(job.outcome == "done" for job in history.jobs), "the simulator ends them all"
    first = min(job.submitted for job in history.jobs)
    return Case(
        gang_jobs(scenario),
        content["nodes"]["levels"][0]["count"],
        content["nodes"]["kinds"][0]["cpu"],
        sorted(job.runs[-1].end - first for job in history.jobs),
    )


# --- on servers


class _Ends:
    """Records when Jobs end."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._condition = threading.Condition()
        self.done: dict[str, float] = {}
        self.failed: dict[str, float] = {}

    def observe(self, _old: Json | None, job: Json | None) -> None:
        for condition in (job or {}).get("status", {}).get("conditions", ()):
            if condition["status"] == "True" and condition["type"] in {"Complete", "Failed"}:
                ends = self.done if condition["type"] == "Complete" else self.failed
                with self._condition:
                    ends.setdefault((job or {})["metadata"]["name"], time.monotonic())
                    self._condition.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` seconds for all ends, and return whether all have occurred."""
        with self._condition:
            return self._condition.wait_for(lambda: len(self.done) + len(self.failed) == self._total, max(0, seconds))


class _Metadata(msgspec.Struct):
    labels: dict[str, str] = {}


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status


def _partial_cpus(client: Client, jobs: Mapping[str, GangJob]) -> int:
    """Return the CPUs of running pods in incomplete gangs; a pod that has ended belongs to a complete one."""
    from zonewise_common.kube.resources import PODS

    started: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for pod in client.list(PODS, into=_Pod).items:
        job = pod.metadata.labels.get(JOB_LABEL, "")
        started[job] += pod.status.phase in {"Running", "Succeeded"}
        running[job] += pod.status.phase == "Running"
    return sum(count * jobs[name].cpus for name, count in running.items() if started[name] < jobs[name].pods)


def run(case: Case, holder: str) -> ServiceResult:
    """Run all Jobs on real servers: with a queue until all have ended, without one for a limited time."""
    limit = case.makespan * (_ALONE_FACTOR if holder == ALONE else _LIMIT_FACTOR)
    with running_servers(case.nodes, case.cpus, holder) as cluster:
        return _serve(case, cluster, limit, holder)


def _serve(case: Case, cluster: LiveCluster, limit: float, holder: str) -> ServiceResult:
    from zonewise_common.kube.resources import JOBS
    from zonewise_scheduler.controller.informers import decode_object

    ends = _Ends(len(case.jobs))
    by_name = {job.name: job for job in case.jobs}
    pause, partial = case.makespan / _SAMPLES, list[int]()
    with submitting(
        case.jobs, cluster, Watch(JOBS, decode_object, ends.observe), lambda job: job_manifest(job, holder)
    ) as (client, begin):
        while not ends.wait(min(pause, begin + limit - time.monotonic())) and time.monotonic() < begin + limit:
            partial.append(_partial_cpus(client, by_name))
    return ServiceResult(sorted(end - begin for end in ends.done.values()), len(ends.failed), mean(partial or [0]))


# --- the table


def main(arguments: Sequence[str]) -> int:
    """Run the measurement and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thousand_jobs", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--speed", type=float, default=8.0)
    parser.add_argument("--only", choices=tuple(TITLES))
    options = parser.parse_args(arguments)
    holders = (options.only,) if options.only else present(TITLES)
    if reason := absence(holders):
        return skip(reason)
    case = read_case(scaled_scenario(json.loads(SCENARIO.read_text()), options.scale, options.speed))
    results = {holder: run(case, holder) for holder in holders}
    return show(table(case, results, options.speed))


def table(case: Case, results: Mapping[str, ServiceResult], speed: float) -> list[Row]:
    """Return the simulated and the measured results; those with the queue have targets."""
    total = len(case.jobs)
    moments = [case.makespan * (i + 1) / (_MOMENTS - 1) for i in range(_MOMENTS)]
    label = (
        f"{total:,} Jobs of {case.jobs[0].pods} pods on {case.nodes} nodes, {speed:g} times as fast: simulated makespan"
    )
    rows = [Row(label, f"{case.makespan:.1f} s")]
    for holder, result in results.items():
        target = holder == QUEUE
        succeeded, ratio = len(result.done), _makespan(case, result) / case.makespan
        rows += [
            Row(f"{TITLES[holder]}: Jobs that succeed", f"{succeeded:,}", f"{total:,}" if target else "",
                succeeded == total or not target),
            Row("... Jobs that fail at their deadlines", f"{result.failed:,}"),
            Row("... makespan, and divided by the simulated one", _makespan_text(case, result),
                f"<= {MAX_RATIO}" if target else "", ratio <= MAX_RATIO or not target),
            Row("... CPUs held by partly started gangs, mean", f"{result.partial:.0f}"),
        ]  # fmt: skip
    times = ", ".join(f"{moment:.0f}" for moment in moments)
    ends = {"simulated": case.simulated, **{name: result.done for name, result in results.items()}}
    for name, done in ends.items():
        counts = ", ".join(str(sum(end <= moment for end in done)) for moment in moments)
        rows.append(Row(f"Jobs done after {times} s: {TITLES.get(name, name)}", counts))
    rows.append(load_row())
    return rows


def _makespan(case: Case, result: ServiceResult) -> float:
    """Return when the last Job succeeded; infinite if one did not."""
    return max(result.done) if len(result.done) == len(case.jobs) else math.inf


def _makespan_text(case: Case, result: ServiceResult) -> str:
    makespan = _makespan(case, result)
    return f"{makespan:.1f} s = {makespan / case.makespan:.2f}" if makespan < math.inf else "not all succeed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
