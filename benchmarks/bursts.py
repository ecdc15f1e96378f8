"""CPUs in use after bursts on real kubelets: `python -m benchmarks.bursts [--bursts 6] [--seed 1]`.

Each burst creates 24 pods of 6, 7, 9 or 10 CPUs at once. The four kubelets have 120 CPUs in zones of 14 and 16. The
same bursts run under kube-scheduler without, then with the extender. The bound is the best packing of the zones
(benchmarks.packing, which measures hundreds of bursts in process). A burst is over once its pods reach the bound, or
once nothing has changed for a while.

The binaries of kube-apiserver, etcd, kubelet and kube-scheduler are needed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.churn import ZONES
from benchmarks.packing import MAX_LOSS, PODS, SIZES, fullest_packing
from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.targets import Row, show, skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.e2e.cluster import Cluster

sys.path.insert(0, str(PROJECT / "tests"))

QUIET = 12.0
"""Seconds without a change after which a burst is over; kube-scheduler's backoff for a rejected pod is at most 10 s."""
SAMPLE_PERIOD = 0.25


class BurstOutcome(NamedTuple):
    """The measurements of one burst."""

    used: int
    """CPUs of running pods."""
    bound: int
    """CPUs of the best packing."""
    rejected: int
    """Pods that a kubelet rejected."""
    seconds: float
    """Seconds from the first creation to the last change."""


def run_burst(cluster: Cluster, sizes: Sequence[int]) -> BurstOutcome:
    """Create the pods of a burst, wait until nothing changes any more, and delete the pods."""
    from support.e2e.pods import container, pod

    bound = fullest_packing(ZONES, [sizes.count(size) for size in SIZES])
    start = time.monotonic()
    cluster.create(
        [pod(f"b{i}", container(cpu=str(cpus), memory="64Mi"), restart="Never") for i, cpus in enumerate(sizes)]
    )
    phases: dict[str, str] = {}
    changed = start
    while time.monotonic() < changed + QUIET and _cpus(sizes, phases, "Running") < bound:
        observed = {name: obj["status"].get("phase", "") for name, obj in cluster.pods().items()}
        if observed != phases:
            phases, changed = observed, time.monotonic()
        time.sleep(SAMPLE_PERIOD)
    outcome = BurstOutcome(
        _cpus(sizes, phases, "Running"), bound, sum(phase == "Failed" for phase in phases.values()), changed - start
    )
    cluster.clear()
    return outcome


def _cpus(sizes: Sequence[int], phases: dict[str, str], phase: str) -> int:
    return sum(sizes[int(name[1:])] for name, observed in phases.items() if observed == phase)


def main(arguments: Sequence[str]) -> int:
    """Run all measurements and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    from support.e2e.cluster import extending, running_cluster, scheduling, skip_reason
    from support.e2e.settings import Settings

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bursts", description=__doc__)
    parser.add_argument("--bursts", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if reason := skip_reason():
        return skip(reason)
    chance = random.Random(options.seed)  # noqa: S311 -- no secret
    bursts = [[chance.choice(SIZES) for _ in range(PODS)] for _ in range(options.bursts)]
    with running_cluster({f"node-{index}": Settings(topology="single-numa-node") for index in range(4)}) as cluster:
        with scheduling(cluster):
            alone = [run_burst(cluster, sizes) for sizes in bursts]
        with extending(cluster) as extender, scheduling(cluster, extender=extender):
            ours = [run_burst(cluster, sizes) for sizes in bursts]
    return show([*_rows("kube-scheduler alone", alone), *_rows("with the extender", ours), *_comparison(ours)])


def _rows(title: str, outcomes: Sequence[BurstOutcome]) -> list[Row]:
    return [
        Row(f"{title}: CPUs in use of {sum(ZONES)}", " ".join(str(outcome.used) for outcome in outcomes)),
        Row("... pods rejected by kubelets", " ".join(str(outcome.rejected) for outcome in outcomes)),
        Row("... seconds to the last start, median", f"{statistics.median(o.seconds for o in outcomes):.1f} s"),
    ]


def _comparison(outcomes: Sequence[BurstOutcome]) -> list[Row]:
    loss = statistics.mean(1 - outcome.used / outcome.bound for outcome in outcomes)
    rejected = sum(outcome.rejected for outcome in outcomes)
    return [
        Row("the best packing", " ".join(str(outcome.bound) for outcome in outcomes)),
        Row("with the extender: loss, mean", f"{loss:.2%}", f"<= {MAX_LOSS:.0%}", loss <= MAX_LOSS),
        Row("with the extender: pods rejected by kubelets", str(rejected), "0", rejected == 0),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
