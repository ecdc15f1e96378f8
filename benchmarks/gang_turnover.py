"""How soon a gang runs after another one: `python -m benchmarks.gang_turnover`.

All gangs are submitted at once, and each needs the whole cluster, 16 pods of 8 CPUs. They therefore start one after
another. The time runs from the end of the last pod of a gang until all pods of the next one run. The servers are real,
and the nodes are simulated. It is measured with the queue, and with each peer that is available (kueue_manager.py,
volcano_programs.py).

The binaries of kube-apiserver, etcd, kube-controller-manager and kube-scheduler are needed.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.support.gang_spans import gang_spans, turnovers
from benchmarks.support.live_jobs import (
    KUEUE,
    QUEUE,
    TITLES,
    VOLCANO,
    GangJob,
    absence,
    job_manifest,
    peers,
    present,
    running_servers,
)
from benchmarks.support.observed_pods import observe_pods
from benchmarks.support.targets import Row, load_row, show, skip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOLDERS = (QUEUE, KUEUE, VOLCANO)
NODES, CPUS = 8, 16
PODS, CPUS_OF_A_POD = 16, 8
RUN_SECONDS = 3.0
_WALLTIME = 600
_SECONDS_OF_A_GANG = 20.0
"""Maximum seconds to wait for a gang."""


def measure(gangs: int, holder: str) -> list[float]:
    """Return the seconds from the end of a gang until the next one runs, on separate servers."""
    jobs = [GangJob(f"gang-{i}", 0.0, PODS, CPUS_OF_A_POD, RUN_SECONDS, _WALLTIME) for i in range(gangs)]
    with running_servers(NODES, CPUS, holder) as cluster:
        pods = observe_pods(jobs, cluster, gangs * _SECONDS_OF_A_GANG, lambda job: job_manifest(job, holder))
    spans = gang_spans(jobs, pods)
    assert len(spans) == gangs, f"{len(spans)} of {gangs} gangs have run"
    return turnovers(spans)


def main(arguments: Sequence[str]) -> int:
    """Run the measurement and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gang_turnover", description=__doc__)
    parser.add_argument("--gangs", type=int, default=8)
    parser.add_argument("--only", choices=HOLDERS)
    options = parser.parse_args(arguments)
    holders = [options.only] if options.only else present(HOLDERS)
    if reason := absence(holders):
        return skip(reason)
    return show(table({holder: measure(options.gangs, holder) for holder in holders}))


def table(seconds_by_holder: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the seconds of each, and the ratio of the queue to each peer."""
    rows: list[Row] = []
    for holder, seconds in seconds_by_holder.items():
        what = f"{TITLES[holder]}: from the end of a gang of {PODS} pods until the next one runs, median"
        rows += [Row(what, f"{median(seconds):.2f} s"), Row("... longest", f"{max(seconds):.2f} s")]
    for peer in peers(seconds_by_holder):
        ratio = median(seconds_by_holder[QUEUE]) / median(seconds_by_holder[peer])
        rows.append(Row(f"... {TITLES[QUEUE]} / {TITLES[peer]}", f"{ratio:.2f}", "<= 1", ratio <= 1))
    rows.append(load_row())
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
