"""CPUs in use under churn on real kubelets: `python -m benchmarks.churn [--seconds 150] [--seed 1]`.

Four kubelets have 120 CPUs in zones of 14 and 16. 34 pods of 1 to 16 CPUs are running or waiting; every second, a
random one is deleted and another is created. The same sequence runs under kube-scheduler alone, with the plugin
NodeResourceTopologyMatch, with its cache, and with the extender. A pod that its kubelet rejects is replaced, as a
controller would do. An ideal scheduler without delays gives the bound.

The binaries of kube-apiserver, etcd, kubelet and kube-scheduler are needed. Without a build of scheduler-plugins
(scheduler_plugins.py), its rows are left out.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.churn_ideal import Change, ideal_mean
from benchmarks.support.scheduler_plugins import PLUGIN, plugin_absence, running_plugin
from benchmarks.support.targets import Row, show, skip

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from support.e2e.cluster import Cluster

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

PODS = 34
MAX_CPUS = 16
ZONES = (14, 16) * 4
"""CPUs that kubelets may assign, by zone: CPUs 0 and 16 of the first zone are reserved."""
PERIOD = 1.0
"""Seconds between two changes."""
SAMPLE_PERIOD = 0.25
WARM_UP = 15.0
"""Seconds that do not count, while the first pods start."""
_TERMINAL = ("Succeeded", "Failed")
_PLUGINS = {"plugin", "plugin-cache"}
_SCHEDULERS = {
    "alone": "kube-scheduler alone",
    "plugin": f"with {PLUGIN}",
    "plugin-cache": f"with {PLUGIN} and its cache",
    "extender": "with the extender",
}
"""The schedulers in the order in which they run, with their titles."""


class ChurnResult(NamedTuple):
    """The measurements of one run."""

    cpus: list[int]
    """CPUs of pods that are bound and have not ended, by sample."""
    running: list[int]
    """CPUs of pods whose containers run, by sample."""
    times: list[float]
    changes: list[Change]
    rejected: int
    """Pods that a kubelet rejected."""
    created: int
    end_lags: list[float]
    """Seconds from the deletion of a running pod to its end."""


class _Churn:
    """Creates and deletes pods of one cluster, and samples the CPUs in use."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)  # noqa: S311 -- no secret
        self._alive: dict[str, int] = {}
        self._deleted: dict[str, float] = {}
        self._cpus: dict[str, int] = {}
        self._held: set[str] = set()
        self.result = ChurnResult([], [], [], [], 0, 0, [])

    def run(self, seconds: float) -> ChurnResult:
        """Run for some seconds after the warm-up."""
        start = time.monotonic()
        for _ in range(PODS):
            self._create()
        due = start + PERIOD
        while (now := time.monotonic()) < start + WARM_UP + seconds:
            if now >= due:
                due += PERIOD
                self._delete(self._chance.choice(sorted(self._alive)))
                self._create()
            self._sample(count=now >= start + WARM_UP)
            time.sleep(max(0.0, min(due, now + SAMPLE_PERIOD) - time.monotonic()))
        return self.result

    def _create(self) -> None:
        from support.e2e.pods import container, pod

        name, cpus = f"p{self.result.created}", self._chance.randint(1, MAX_CPUS)
        self._cluster.create([pod(name, container(cpu=str(cpus), memory="1Gi"), restart="Never")])
        self._alive[name] = self._cpus[name] = cpus
        self.result.changes.append(Change(time.monotonic(), name, cpus))
        self.result = self.result._replace(created=self.result.created + 1)

    def _delete(self, name: str) -> None:
        del self._alive[name]
        self._deleted[name] = time.monotonic()
        self.result.changes.append(Change(self._deleted[name], name, None))
        self._cluster.delete(name)

    def _sample(self, *, count: bool) -> None:
        pods = self._cluster.pods()
        now = time.monotonic()
        bound = {name for name, obj in pods.items() if obj["spec"].get("nodeName")}
        held = {name for name in bound if pods[name]["status"].get("phase") not in _TERMINAL}
        if count:
            self.result.times.append(now)
            self.result.cpus.append(sum(self._cpus[name] for name in held))
            running = {pod for node in self._cluster.nodes.values() for pod, _ in node.runtime.running()}
            self.result.running.append(sum(self._cpus[name] for name in running if name in self._cpus))
        for name in [name for name in self._deleted if name not in held]:
            lag = now - self._deleted.pop(name)
            if name in self._held:
                self.result.end_lags.append(lag)
        self._held = held
        for name in [name for name in self._alive if name in pods and pods[name]["status"].get("phase") == "Failed"]:
            self.result = self.result._replace(rejected=self.result.rejected + 1)
            self._delete(name)
            self._create()


def main(arguments: Sequence[str]) -> int:
    """Run all measurements and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    from support.e2e.cluster import running_cluster, skip_reason
    from support.e2e.settings import Settings

    parser = argparse.ArgumentParser(prog="python -m benchmarks.churn", description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=_SCHEDULERS, help="measure one of the schedulers")
    options = parser.parse_args(arguments)
    if reason := skip_reason():
        return skip(reason)
    absent = _PLUGINS if (plugin_reason := plugin_absence()) else set[str]()
    if options.only in absent:
        return skip(plugin_reason)
    names = [options.only] if options.only else [name for name in _SCHEDULERS if name not in absent]
    kubelets = {
        f"node-{index}": Settings(topology=policy)
        for index, policy in enumerate(("single-numa-node", "restricted") * 2)
    }
    rows: list[Row] = []
    results: dict[str, ChurnResult] = {}
    with running_cluster(kubelets) as cluster:
        for name in names:
            with _scheduling(cluster, name):
                results[name] = _Churn(cluster, options.seed).run(options.seconds)
                cluster.clear()
            rows += _rows(_SCHEDULERS[name], results[name])
    if "extender" in results:
        rows += _comparison(results)
    return show(rows)


@contextmanager
def _scheduling(cluster: Cluster, name: str) -> Generator[None]:
    """Run one of the schedulers."""
    from support.e2e.cluster import extending, scheduling

    with ExitStack() as stack:
        if name in _PLUGINS:
            stack.enter_context(running_plugin(cluster, cached=name == "plugin-cache"))
        else:
            extender = stack.enter_context(extending(cluster)) if name == "extender" else None
            stack.enter_context(scheduling(cluster, extender=extender))
        yield


def _rows(title: str, result: ChurnResult) -> list[Row]:
    lag = statistics.median(result.end_lags) if result.end_lags else 0.0
    return [
        Row(f"{title}: CPUs in use of {sum(ZONES)}, mean", f"{statistics.mean(result.cpus):.1f}"),
        Row("... of running containers", f"{statistics.mean(result.running):.1f}"),
        Row("... pods rejected by kubelets", f"{result.rejected} of {result.created}"),
        Row("... from deletion to end of a pod, median", f"{lag:.2f} s"),
    ]


def _comparison(results: Mapping[str, ChurnResult]) -> list[Row]:
    ours = results["extender"]
    mean = statistics.mean(ours.cpus)
    lag = statistics.median(ours.end_lags)
    ideal = ideal_mean(ours.changes, ZONES, lag, ours.times)
    rows = [
        Row("no pod is rejected", str(ours.rejected), "0", ours.rejected == 0),
        Row("CPUs in use / an ideal scheduler's", f"{mean:.1f} / {ideal:.1f} = {mean / ideal:.3f}", ">= 0.98",
            mean >= 0.98 * ideal),
    ]  # fmt: skip
    for name, result in results.items():
        if result is not ours:
            peer = statistics.mean(result.cpus)
            rows.append(Row(f"... / {_SCHEDULERS[name]}", f"{mean / peer:.2f}", ">= 1", mean >= peer))
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
