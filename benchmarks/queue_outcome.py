"""The outcome for users of the queue, compared with Kueue and Volcano: `python -m benchmarks.queue_outcome`.

Gangs of 1 to 32 pods arrive at 512 CPUs, slightly more than fit, and declare two to five times their run time. The same
sequence runs on real servers: with the queue under its default policy, and with each peer that is available. The peers
are Kueue's manager (kueue_manager.py) and Volcano (volcano_programs.py), which gets its Jobs as gangs. With either
queue, kube-scheduler binds the pods. The nodes are simulated. The simulator computes the outcome of a policy without
any delay: of the default, and of greedy, which is the peers' policy.

The binaries of kube-apiserver, etcd, kube-controller-manager and kube-scheduler are needed.
"""

from __future__ import annotations

import argparse
import sys
from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.support.gang_room import seconds_from_room
from benchmarks.support.gang_spans import GangSpan, gang_spans, working_cpus
from benchmarks.support.live_jobs import (
    KUEUE,
    QUEUE,
    TITLES,
    VOLCANO,
    absence,
    gang_jobs,
    job_manifest,
    peers,
    present,
    running_servers,
)
from benchmarks.support.observed_pods import observe_pods
from benchmarks.support.targets import Row, load_row, show, skip
from zonewise_scheduler.admission.node import Policies
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.support.live_jobs import GangJob
    from zonewise_scheduler.simulator.scenario import Scenario

Json = dict[str, Any]

NODES, CPUS = 32, 16
_POLICIES = {QUEUE: DEFAULT_POLICY, KUEUE: "greedy", VOLCANO: "greedy"}
"""Policies of the simulation for each holder."""
_LIMIT_FACTOR = 3.0
"""Jobs are watched for up to this multiple of the simulated makespan."""


class Outcome(NamedTuple):
    """The results of one run."""

    jobs: int
    spans: list[GangSpan]
    """Spans of the gangs that succeeded, sorted by submission."""
    cpus: float
    """Mean number of CPUs that worked while Jobs arrived."""
    from_room: list[float]
    """Seconds from when a gang fits until all its pods run."""
    room: float
    """Seconds in which a waiting gang fits."""


def scenario_content(seconds: float, seed: int) -> Json:
    """Return a job file of gangs that arrive within `seconds` seconds."""
    return {
        "name": "mixed-gangs",
        "seed": seed,
        "nodes": {
            "name": "workers",
            "levels": [{"name": "node", "count": NODES}],
            "kinds": [{"name": "worker", "cpu": CPUS, "memory": "64Gi", "pods": 110}],
        },
        "jobs": [
            {
                "name": "narrow", "count": round(seconds * 2.5), "every": {"exponential": 0.4},
                "pods": {"uniform": [1, 4]}, "requests": {"cpu": 4},
                "run": {"loguniform": [2, 20]}, "overestimate": {"uniform": [2, 5]},
            },
            {
                "name": "wide", "count": round(seconds / 6), "every": {"exponential": 6},
                "pods": {"uniform": [8, 32]}, "requests": {"cpu": 8},
                "run": {"loguniform": [5, 30]}, "overestimate": {"uniform": [2, 5]},
            },
        ],
    }  # fmt: skip


def read_scenario(content: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a job file."""
    from zonewise_scheduler.simulator.inputs.fleet_file import read_fleet
    from zonewise_scheduler.simulator.inputs.job_file import read_job_file

    return read_job_file(content, content["name"], read_fleet(content["nodes"], content["name"]))


def simulated(
    scenario: Scenario, jobs: Sequence[GangJob], policy: str, window: float, end_delay: float = 0.0
) -> Outcome:
    """Return the outcome of a policy that starts gangs as soon as they fit.

    `end_delay` is the time in seconds that nodes need to end pods after their work.
    """
    from zonewise_scheduler.backfill.policies import policy_named
    from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
    from zonewise_scheduler.simulator.latency import Latency

    history = simulate_cluster(scenario, policy_named(policy), Latency(release=end_delay))
    first = min(job.submitted for job in history.jobs)
    runs = {job.name.rpartition("/")[-1]: job.runs[-1] for job in history.jobs}
    spans = [
        GangSpan(job, runs[job.name].start - first, runs[job.name].start - first, runs[job.name].end - first)
        for job in jobs
    ]
    return Outcome(len(jobs), spans, working_cpus(spans, 0, window), [], 0)


# --- on servers


def run(jobs: Sequence[GangJob], holder: str, limit: float, window: float) -> Outcome:
    """Run all Jobs on real servers, for at most `limit` seconds."""
    from support.ledger_kubelets import node_kind, pod_shape

    with running_servers(NODES, CPUS, holder) as cluster:
        pods = observe_pods(jobs, cluster, limit, lambda job: job_manifest(job, holder))
    spans = gang_spans(jobs, pods)
    kind = node_kind(Policies(cpu="static"), zones=1, cpus=CPUS, gpus=0)
    nodes = dict.fromkeys([f"node-{i}" for i in range(NODES)], kind)
    from_room, room = seconds_from_room(jobs, pods, nodes, lambda job: pod_shape((job.cpus, 0)))
    return Outcome(len(jobs), spans, working_cpus(spans, 0, window), from_room, room)


# --- the table


def main(arguments: Sequence[str]) -> int:
    """Run the measurement and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_outcome", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=tuple(_POLICIES))
    options = parser.parse_args(arguments)
    holders = [options.only] if options.only else present(_POLICIES)
    if reason := absence(holders):
        return skip(reason)
    scenario = read_scenario(scenario_content(options.seconds, options.seed))
    jobs = gang_jobs(scenario)
    window = jobs[-1].submitted
    ideals = {holder: simulated(scenario, jobs, _POLICIES[holder], window) for holder in holders}
    limit = _LIMIT_FACTOR * max(span.ended for ideal in ideals.values() for span in ideal.spans)
    outcomes = {holder: run(jobs, holder, limit, window) for holder in holders}
    return show(table(outcomes, ideals))


def table(outcomes: Mapping[str, Outcome], ideals: Mapping[str, Outcome]) -> list[Row]:
    """Return the results of each run with those of its simulation, and the ratios between runs."""
    rows: list[Row] = []
    for holder, outcome in outcomes.items():
        waits, ideal = _waits(outcome), _waits(ideals[holder])
        rows += [
            Row(f"{TITLES[holder]}: Jobs that succeed", f"{len(outcome.spans)} of {outcome.jobs}",
                "all" if holder == QUEUE else "", len(outcome.spans) == outcome.jobs or holder != QUEUE),
            Row(f"... CPUs in use while Jobs arrive, of {NODES * CPUS}; simulated",
                f"{outcome.cpus:.0f}; {ideals[holder].cpus:.0f}"),
            Row("... wait until all pods run, mean; simulated", f"{mean(waits):.1f} s; {mean(ideal):.1f} s"),
            Row("... 95th percentile; simulated", f"{_p95(waits):.1f} s; {_p95(ideal):.1f} s"),
            Row("... longest; simulated", f"{max(waits):.1f} s; {max(ideal):.1f} s"),
            Row("... from capacity for a gang until all its pods run, median", f"{median(outcome.from_room):.2f} s"),
            Row("... 95th percentile", f"{_p95(outcome.from_room):.2f} s"),
            Row("... time in which a waiting gang would fit", f"{outcome.room:.1f} s"),
        ]  # fmt: skip
    for peer in peers(outcomes):
        rows += _comparison(outcomes[QUEUE], outcomes[peer], TITLES[peer])
    rows.append(load_row())
    return rows


def _comparison(ours: Outcome, peer: Outcome, title: str) -> list[Row]:
    """Return the ratios of what users get; the queue should be better in each."""
    cpus = ours.cpus / peer.cpus
    rows = [Row(f"{TITLES[QUEUE]} / {title}: CPUs in use", f"{cpus:.2f}", ">= 1", cpus >= 1)]
    for label, values, peer_values in (
        ("... mean wait", _waits(ours), _waits(peer)),
        ("... time from capacity to running, mean", ours.from_room, peer.from_room),
    ):
        ratio = mean(values) / mean(peer_values)
        rows.append(Row(label, f"{ratio:.2f}", "<= 1", ratio <= 1))
    return rows


def _waits(outcome: Outcome) -> list[float]:
    return [span.wait for span in outcome.spans]


def _p95(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
