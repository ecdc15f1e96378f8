"""Gangs on real kubelets, with the whole product and with peers: `python -m benchmarks.gangs_on_kubelets`.

Four kubelets have 120 CPUs in zones of 15, and give each container CPUs of one zone. Gangs of 1 to 8 pods with
3 to 7 CPUs arrive, slightly more than fit, and declare two to five times their run time. The work of a gang begins once
all of its pods run. The same Jobs run with agents, queue and extender, and with each peer that is available. The peers
are Kueue's manager (kueue_manager.py) before kube-scheduler, the same with the plugin NodeResourceTopologyMatch
(scheduler_plugins.py), Volcano (volcano_programs.py), and kube-scheduler alone. The simulator computes the outcome of
the queue's policy without any delay, and with the time that these kubelets need to end pods.

With `--gpus`, each zone also has two GPUs, and each pod needs one of the zone of its CPUs. A device plugin offers them.

The Job controller replaces a pod that its kubelet rejects, up to six times for each Job, which is the default.

The binaries of kube-apiserver, etcd, kubelet, kube-controller-manager and kube-scheduler are needed.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from functools import partial
from math import inf
from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.queue_outcome import read_scenario, simulated
from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.gang_ends import CONTAINER, GangEnds
from benchmarks.support.gang_room import seconds_from_room
from benchmarks.support.gang_spans import GangSpan, end_delays, gang_spans, working_amount
from benchmarks.support.kueue_manager import running_kueue
from benchmarks.support.live_jobs import (
    ALONE,
    KUEUE,
    KUEUE_PLUGIN,
    KUEUE_PLUGIN_CACHE,
    PLACING_QUEUES,
    QUEUE,
    QUEUES,
    TITLES,
    VOLCANO,
    absence,
    gang_jobs,
    job_manifest,
    peer_absence,
    peers,
    present,
)
from benchmarks.support.observed_pods import observe_pods
from benchmarks.support.scheduler_plugins import running_plugin
from benchmarks.support.targets import Row, load_row, show, skip
from benchmarks.support.volcano_programs import running_volcano
from zonewise_scheduler.admission.node import Policies
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from benchmarks.support.live_jobs import GangJob
    from support.e2e.cluster import Cluster
    from support.e2e.node import Node
    from support.live_cluster import LiveCluster
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import PodShape

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

HOLDERS = (QUEUE, KUEUE, KUEUE_PLUGIN, KUEUE_PLUGIN_CACHE, VOLCANO, ALONE)
NODES = 4
_ZONES, _ZONE_CPUS = 2, 15
_RESERVED_CPUS = "0,8"
"""One CPU of each zone, so that all zones have the same number of CPUs, as in the simulator."""
_POLICY = "single-numa-node"
_CPUS = NODES * _ZONES * _ZONE_CPUS
_ZONE_GPUS = 2
_GPUS = NODES * _ZONES * _ZONE_GPUS
_MEMORY = "64Mi"
"""Memory of a pod. Only pods of the class Guaranteed get exclusive CPUs."""
_MEMORY_QUOTA = "1Ti"
MIN_OF_IDEAL = 0.9
"""Minimum of the queue's working CPUs, relative to the simulated ones."""
_LIMIT_FACTOR = 2.0
"""Jobs are watched for this multiple of the time in which they arrive."""


class Case(NamedTuple):
    """What the gangs request, and which resource is measured."""

    resource: str
    capacity: int
    """Amount of the resource of all nodes."""
    kinds: tuple[tuple[str, float, tuple[int, int], int], ...]
    """Kinds of gangs: name, seconds between two of them, minimum and maximum of pods, and CPUs of a pod."""
    gpus: int = 0
    """GPUs of each pod."""

    def used(self, job: GangJob) -> int:
        """Return how much of the resource a gang uses."""
        return job.pods * (self.gpus or job.cpus)

    def requests(self, cpus: int) -> dict[str, Any]:
        """Return what a pod requests apart from memory."""
        from support.e2e.pods import GPU

        return {"cpu": cpus, **({GPU: self.gpus} if self.gpus else {})}


_CPU_CASE = Case("CPUs", _CPUS, (("small", 4.0, (1, 4), 3), ("medium", 10.0, (2, 6), 5), ("wide", 18.0, (4, 8), 7)))
_GPU_CASE = Case("GPUs", _GPUS, (("small", 9.0, (1, 4), 3), ("medium", 15.0, (2, 6), 5), ("wide", 22.0, (4, 8), 7)), 1)


class KubeletOutcome(NamedTuple):
    """The results of one run."""

    jobs: int
    spans: list[GangSpan]
    """Spans of the gangs that succeeded, sorted by submission."""
    rejected: int
    """Pods that a kubelet rejected."""
    from_room: list[float]
    """Seconds from when the zones have room for a gang until all its pods run."""


def scenario_content(case: Case, seconds: float, seed: int) -> Json:
    """Return a job file of gangs that arrive within `seconds` seconds."""
    from support.e2e.pods import GPU

    gpus = {"resources": {GPU: _ZONES * _ZONE_GPUS}} if case.gpus else {}
    return {
        "name": "gangs",
        "seed": seed,
        "nodes": {
            "name": "workers",
            "levels": [{"name": "node", "count": NODES}],
            "kinds": [
                {
                    "name": "worker", "cpu": _ZONES * _ZONE_CPUS, "memory": "64Gi", **gpus,
                    "zones": _ZONES, "policy": _POLICY,
                }
            ],
        },
        "jobs": [
            {
                "name": name, "count": round(seconds / every), "every": {"exponential": every},
                "pods": {"uniform": list(pods)}, "requests": case.requests(cpus),
                "run": {"loguniform": [8, 40]}, "overestimate": {"uniform": [2, 5]},
            }
            for name, every, pods, cpus in case.kinds
        ],
    }  # fmt: skip


def guaranteed_manifest(case: Case, job: GangJob, holder: str) -> Json:
    """Return a Job whose pods get exclusive CPUs, with the default number of replacements for failed pods.

    A deadline would count the time that peers need for replacements, so only the queue, which reads it, gets one.
    """
    manifest = job_manifest(job, holder)
    amounts = {"memory": _MEMORY, **{name: str(amount) for name, amount in case.requests(job.cpus).items()}}
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    container.update(name=CONTAINER, resources={"requests": amounts, "limits": amounts})
    del manifest["spec"]["backoffLimit"]
    if holder != QUEUE:
        manifest["spec"].pop("activeDeadlineSeconds", None)
    return manifest


def run(case: Case, jobs: Sequence[GangJob], holder: str, window: float) -> KubeletOutcome:
    """Run all Jobs on a new cluster."""
    with (
        _running_nodes(case) as (cluster, live),
        _holding(case, cluster, live, holder),
        contextlib.closing(GangEnds(jobs, cluster.nodes)) as ends,
    ):
        manifest = partial(guaranteed_manifest, case, holder=holder)
        pods = observe_pods(jobs, live, _LIMIT_FACTOR * window, manifest, ends.observe)
    from_room, _ = seconds_from_room(jobs, pods, _idle_nodes(case), partial(_shape, case))
    return KubeletOutcome(len(jobs), gang_spans(jobs, pods), len(ends.rejected), from_room)


def _idle_nodes(case: Case) -> dict[str, NodeKind]:
    from support.ledger_kubelets import node_kind

    kind = node_kind(Policies(_POLICY, cpu="static"), _ZONES, _ZONE_CPUS, _ZONE_GPUS if case.gpus else 0)
    return {f"node-{index}": kind for index in range(NODES)}


def _shape(case: Case, job: GangJob) -> PodShape:
    from support.ledger_kubelets import pod_shape

    return pod_shape((job.cpus, case.gpus))


@contextlib.contextmanager
def _running_nodes(case: Case) -> Generator[tuple[Cluster, LiveCluster]]:
    """Run kubelets with agents, and the controllers for Jobs."""
    from support.controller_manager import real_controller_manager
    from support.e2e.cluster import running_cluster
    from support.e2e.settings import Settings
    from support.live_cluster import LiveCluster, add_queue_kinds

    settings = Settings(topology=_POLICY, reserved_cpus=_RESERVED_CPUS)
    kubelets = {f"node-{index}": settings for index in range(NODES)}
    prepare = _plug_gpus if case.gpus else None
    with running_cluster(kubelets, prepare) as cluster, real_controller_manager(cluster.server):
        add_queue_kinds(cluster.server.admin)
        flags = ("--kubeconfig", str(cluster.kubeconfig))
        yield cluster, LiveCluster(cluster.server.admin, cluster.directory, flags, real=True)


def _plug_gpus(node: Node) -> None:
    from support.e2e.plugin import Device
    from support.e2e.pods import GPU

    node.plug(GPU, [Device(f"gpu-{zone}-{i}", (zone,)) for zone in range(_ZONES) for i in range(_ZONE_GPUS)])


@contextlib.contextmanager
def _holding(case: Case, cluster: Cluster, live: LiveCluster, holder: str) -> Generator[None]:
    """Run the programs that start Jobs, and those that bind their pods."""
    from support.e2e.cluster import extending, scheduling
    from support.e2e.pods import GPU

    with contextlib.ExitStack() as stack:
        if holder == VOLCANO:
            stack.enter_context(running_volcano(live))
        elif holder in {KUEUE_PLUGIN, KUEUE_PLUGIN_CACHE}:
            stack.enter_context(running_plugin(cluster, cached=holder == KUEUE_PLUGIN_CACHE))
        else:
            extender = stack.enter_context(extending(cluster)) if holder == QUEUE else None
            stack.enter_context(scheduling(cluster, extender=extender))
        if holder in QUEUES:
            more = {"memory": _MEMORY_QUOTA, **({GPU: str(_GPUS)} if case.gpus else {})}
            live.add_queue(_CPUS, topology=holder in PLACING_QUEUES, more=more)
            stack.enter_context(live.controller() if holder == QUEUE else running_kueue(live))
        yield


# --- the table


def main(arguments: Sequence[str]) -> int:
    """Run the measurement and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    from support.e2e.cluster import skip_reason

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs_on_kubelets", description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", choices=HOLDERS)
    parser.add_argument("--gpus", action="store_true", help="let each pod request a GPU")
    options = parser.parse_args(arguments)
    holders = [options.only] if options.only else present(HOLDERS)
    if reason := skip_reason() or absence(holders):
        return skip(reason)
    case = _GPU_CASE if options.gpus else _CPU_CASE
    scenario = read_scenario(scenario_content(case, options.seconds, options.seed))
    jobs = gang_jobs(scenario)
    window = jobs[-1].submitted
    outcomes = {holder: run(case, jobs, holder, window) for holder in holders}
    end_delay = median([0.0, *(delay for outcome in outcomes.values() for delay in end_delays(outcome.spans))])
    ideals = {
        title: simulated(scenario, jobs, DEFAULT_POLICY, window, delay).spans
        for title, delay in {
            "simulated, without delays": 0.0,
            f"simulated, with ends of {end_delay:.1f} s": end_delay,
        }.items()
    }
    absent = [Row(TITLES[holder], f"not run: {reason}") for holder in HOLDERS if (reason := peer_absence(holder))]
    return show([*table(case, window, outcomes, ideals), *absent])


def table(
    case: Case, window: float, outcomes: Mapping[str, KubeletOutcome], ideals: Mapping[str, Sequence[GangSpan]]
) -> list[Row]:
    """Return the results of the simulations and of each run, and the ratios of the queue to them."""
    working = {holder: working_amount(outcome.spans, 0, window, case.used) for holder, outcome in outcomes.items()}
    rows: list[Row] = []
    for title, spans in ideals.items():
        rows += _rows(case, title, working_amount(spans, 0, window, case.used), spans)
    for holder, outcome in outcomes.items():
        ours, title = holder == QUEUE, TITLES[holder]
        complete = len(outcome.spans) == outcome.jobs
        rows += [
            Row(f"{title}: Jobs that succeed", f"{len(outcome.spans)} of {outcome.jobs}", "all" if ours else "",
                complete or not ours),
            Row("... pods rejected by kubelets", str(outcome.rejected), "0" if ours else "",
                not (ours and outcome.rejected)),
            *_rows(case, "...", working[holder], outcome.spans),
            Row("... from room in the zones until all pods run, mean", f"{mean(outcome.from_room or [inf]):.2f} s"),
            Row("... 95th percentile", f"{np.percentile(outcome.from_room or [inf], 95):.2f} s"),
        ]  # fmt: skip
    if QUEUE in outcomes:
        title, spans = list(ideals.items())[-1]
        amount = working_amount(spans, 0, window, case.used)
        rows.append(_ratio(f"{case.resource} at work / {title}", working[QUEUE], amount, MIN_OF_IDEAL))
    for peer in peers(outcomes):
        rows.append(_ratio(f"... / {TITLES[peer]}", working[QUEUE], working[peer], 1.0))
    rows.append(load_row())
    return rows


def _rows(case: Case, title: str, working: float, spans: Sequence[GangSpan]) -> list[Row]:
    """Return the rows that users feel; waits are those of Jobs that succeed."""
    separator = " " if title == "..." else ": "
    waits = [span.wait for span in spans] or [inf]
    return [
        Row(f"{title}{separator}{case.resource} at work while Jobs arrive, of {case.capacity}", f"{working:.1f}"),
        Row("... wait until all pods run, mean", f"{mean(waits):.1f} s"),
        Row("... 95th percentile", f"{np.percentile(waits, 95):.1f} s"),
        Row("... longest", f"{max(waits):.1f} s"),
    ]


def _ratio(label: str, ours: float, other: float, least: float) -> Row:
    ratio = ours / other if other else inf
    return Row(label, f"{ours:.1f} / {other:.1f} = {ratio:.2f}", f">= {least:g}", ratio >= least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
