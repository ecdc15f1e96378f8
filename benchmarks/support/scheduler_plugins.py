"""kube-scheduler with the plugin NodeResourceTopologyMatch, for benchmarks that use it as a peer.

A build of scheduler-plugins' cmd/scheduler is looked up as `scheduler-plugins`, next to the Kubernetes programs. The
plugin reads the reports of our agents, which contain all that it needs. By default, it reads them for each pod. Under
churn, its README recommends a cache instead (pkg/noderesourcetopology/README.md).
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.support.agent_testbed import PROJECT

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.cluster import Cluster

sys.path.insert(0, str(PROJECT / "tests"))

PROGRAM = "scheduler-plugins"
PLUGIN = "NodeResourceTopologyMatch"
_RESYNC_SECONDS = 5
"""Period of the cache's resynchronization, the shortest that the README recommends."""
_DAEMON_PODS = "/api/v1/namespaces/kube-system/pods"


def plugin_absence() -> str:
    """Return why the scheduler with the plugin cannot run here, or "" if it can."""
    from support.programs import find_program, missing_program

    return missing_program(PROGRAM) if find_program(PROGRAM) is None else ""


@contextlib.contextmanager
def running_plugin(cluster: Cluster, *, cached: bool) -> Generator[None]:
    """Run the scheduler on a cluster whose agents have published reports, with or without the plugin's cache.

    With an informer of its own, the cache counts ended pods of Jobs, and never resynchronizes their nodes
    (podprovider.go IsPodRelevantDedicated). So it shares kube-scheduler's.
    """
    from support.e2e.cluster import running_scheduler

    args: dict[str, Any] = {"scoringStrategy": {"type": "LeastAllocated"}}
    if cached:
        args |= {"cacheResyncPeriodSeconds": _RESYNC_SECONDS, "cache": {"informerMode": "Shared"}}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": PLUGIN}]}},
        "pluginConfig": [{"name": PLUGIN, "args": args}],
    }
    with (
        _daemon_pods(cluster) if cached else contextlib.nullcontext(),
        running_scheduler(cluster.kubeconfig, cluster.directory, program=PROGRAM, profiles=[profile]),
    ):
        yield


@contextlib.contextmanager
def _daemon_pods(cluster: Cluster) -> Generator[None]:
    """Run a pod without requests on each node, as DaemonSets do: the cache does not resynchronize nodes without pods.

    Source: cache/overreserve.go MakeNRTUpdatesForNodes.
    """
    api, names = cluster.server.admin, {node: f"daemon-{node}" for node in cluster.nodes}
    for node, name in names.items():
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "none"}]}
        api.post(_DAEMON_PODS, {"metadata": {"name": name}, "spec": spec}).ok()

    def are_running() -> bool:
        pods = api.get(_DAEMON_PODS).ok()["items"]
        return len(pods) == len(names) and all(pod["status"].get("phase") == "Running" for pod in pods)

    cluster.until(are_running, lambda: "the pods of the DaemonSet do not run")
    yield
    for name in names.values():
        api.delete(f"{_DAEMON_PODS}/{name}", gracePeriodSeconds=0).ok()
