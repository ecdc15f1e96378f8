"""The text that `zonewise up` prints once it is ready."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from zonewise_sandbox.up.machines import capacity_text

if TYPE_CHECKING:
    from zonewise_sandbox.up.cluster import Cluster
    from zonewise_sandbox.up.node_descriptions import NodeSet
    from zonewise_sandbox.up.observer import Observer


def cluster_summary(nodes: NodeSet, cluster: Cluster, kubeconfig: str, seconds: float, load: str, program: str) -> str:
    """Return the summary of a cluster and how to use it.

    `load` is the mix of its jobs, "" for none; `program` is the command to run zonewise in another terminal.
    """
    numbers = Counter(node.machine.kind for node in nodes.nodes)
    machines = {node.machine.kind: node.machine for node in nodes.nodes}
    width = len(str(max(numbers.values())))
    speed = cluster.clock.speed
    lines = [
        f"ready in {seconds:.1f} s",
        "",
        *(f"  {number:{width}} x {kind}: {capacity_text(machines[kind])}" for kind, number in numbers.items()),
        *([f"  jobs of the mix {load} arrive"] if load else []),
        *([f"  {speed:g} seconds of the cluster pass in a second"] if speed != 1 else []),
        "",
        f"  API server  {cluster.url}",
        f"  page        {cluster.status_url}",
        f"  kubeconfig  {kubeconfig}",
        "",
        "In another terminal:",
        "",
        f"  export KUBECONFIG={shlex.quote(kubeconfig)}",
        f"  {program} queue",
        f"  {program} submit -J hello -c 1 --mem 1G --time 30 --image none --wrap true",
        f"  {program} explain hello",
        "  kubectl get nodes,workloads,pods",
        "",
        "No container runs here. A pod runs for the seconds in its annotation",
        "zonewise.dev/simulated-run-seconds, else until the time limit of its job.",
        "",
        "Ctrl-C ends the cluster and removes all of it.",
        "",
    ]
    return "\n".join(lines)


def observer_summary(observer: Observer) -> str:
    """Return the address at which an existing cluster is shown."""
    lines = [
        f"  cluster  {observer.cluster_url}, read-only",
        f"  page     {observer.status_url}",
        "",
        "Ctrl-C ends the page; the cluster stays as it is.",
        "",
    ]
    return "\n".join(lines)
