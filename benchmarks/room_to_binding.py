"""Time from free CPUs to a binding, with many waiting pods: `python -m benchmarks.room_to_binding`.

It runs real kube-apiserver, etcd and kube-scheduler, and the extender as a process. 1,000 pods of 50 shapes wait for
200 full nodes without kubelets. This process publishes the nodes' reports: one after another shows the CPUs of one
waiting shape as free. The time ends when a watch shows a pod on that node.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.bindings import Bindings
from benchmarks.support.extender_testbed import NAMESPACE, node_names, real_cluster
from benchmarks.support.fit_cluster import NodeSpec, kind
from benchmarks.support.targets import NOT_MEASURED, Row, show
from zonewise_scheduler.admission.node import NodeState, idle_node

if TYPE_CHECKING:
    from support.e2e.cluster import Cluster
    from support.extender import Extender

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

MAKE = NodeSpec(zones=2, cores=16, devices=0, memory=64, pages=0, resources=())
SIZES = tuple(range(2, 22, 2))
"""Numbers of CPUs; with five amounts of memory each, there are 50 shapes."""
MEDIAN, P99 = 0.5, 2.0
"""Maximum seconds."""
PAUSE = 0.1
"""Minimum seconds between two nodes that become free."""
PATIENCE = 120.0
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_NRTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def with_free_cpus(count: int) -> NodeState:
    """Return a node with only `count` free CPUs, in the first zone."""
    state = idle_node(kind(MAKE))
    free, zone = 0, dict(state.kind.cpus.zones)[0]
    for _, core in state.kind.cpus.cores:
        if core & zone & state.free_cpus and free.bit_count() < count:
            free |= core
    return state._replace(free_cpus=free)


def pod(number: int, rng: random.Random) -> Json:
    """Return a Guaranteed pod of one of the shapes."""
    amounts = {"cpu": str(rng.choice(SIZES)), "memory": f"{rng.randint(1, 5)}Gi"}
    resources = {"requests": amounts, "limits": amounts}
    return {
        "metadata": {"name": f"p{number}"},
        "spec": {"containers": [{"name": "c", "image": "none", "resources": resources}]},
    }


def publish(cluster: Cluster, node: str, state: NodeState) -> None:
    """Replace a node's report."""
    from support.extender import build_nrt

    report, path = build_nrt(node, state), f"{_NRTS}/{node}"
    version = cluster.server.admin.get(path).ok()["metadata"]["resourceVersion"]
    report["metadata"]["resourceVersion"] = version
    cluster.server.admin.put(path, report).ok()


def measure(cluster: Cluster, extender: Extender, pods: int, nodes: int) -> tuple[list[float], float, float]:
    """Return the seconds from each free node to its binding, the rejected filter calls, and their mean duration."""
    rng = random.Random(1)  # noqa: S311 -- a seed
    admin = cluster.server.admin
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(admin.post, _PODS), [pod(number, rng) for number in range(pods)]))
    rejected = 'zonewise_extender_filter_results_total{result="rejected"}'
    deadline = time.monotonic() + PATIENCE
    while extender.metric(rejected) < pods:
        assert time.monotonic() < deadline, "kube-scheduler has not filtered all pods"
        time.sleep(0.5)
    calls = 'zonewise_extender_request_duration_seconds_{}{{verb="filter"}}'
    before = [extender.metric(calls.format(part)) for part in ("sum", "count")]
    times: list[float] = []
    with Bindings(cluster) as bindings:
        for node in node_names(nodes):
            start = time.monotonic()
            publish(cluster, node, with_free_cpus(rng.choice(SIZES)))
            while node not in bindings.first_by_node and time.monotonic() < start + 10.0:
                time.sleep(0.001)
            times.append(bindings.first_by_node.get(node, float("inf")) - start)
            time.sleep(max(0.0, start + PAUSE - time.monotonic()))
    after = [extender.metric(calls.format(part)) for part in ("sum", "count")]
    count = after[1] - before[1]
    return times, count, (after[0] - before[0]) / count if count else 0.0


def main() -> int:
    """Run the measurement and print the times with their bounds; return 1 if one is missed, 2 if a binary is absent."""
    from support.e2e.cluster import extending, scheduling

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=200)
    options = parser.parse_args()
    with ExitStack() as stack:
        cluster = stack.enter_context(real_cluster(MAKE, options.nodes))
        if cluster is None:
            return NOT_MEASURED
        full = with_free_cpus(0)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(partial(publish, cluster, state=full), node_names(options.nodes)))
        extender = stack.enter_context(extending(cluster))
        stack.enter_context(scheduling(cluster, extender=extender))
        times, calls, mean = measure(cluster, extender, options.pods, options.nodes)
    times.sort()
    median, p99 = statistics.median(times), times[min(len(times) - 1, int(0.99 * len(times)))]
    label = f"{options.pods} waiting pods of 50 shapes, {options.nodes} nodes: free CPUs to binding"
    return show([
        Row(f"{label}, median", f"{median * 1000:.0f} ms", f"<= {MEDIAN * 1000:.0f} ms", median <= MEDIAN),
        Row(f"{label}, p99", f"{p99 * 1000:.0f} ms", f"<= {P99 * 1000:.0f} ms", p99 <= P99),
        Row(f"{label}, slowest", f"{times[-1] * 1000:.0f} ms"),
        Row("filter calls meanwhile", f"{calls:.0f}"),
        Row("filter calls meanwhile: mean time in the extender", f"{mean * 1000:.2f} ms"),
    ])  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
