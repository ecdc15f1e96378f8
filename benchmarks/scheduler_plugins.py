"""kube-scheduler with the plugin NodeResourceTopologyMatch, for benchmarks that use it as a peer.

A build of scheduler-plugins' cmd/scheduler is looked up as `scheduler-plugins`, next to the Kubernetes programs. The
plugin reads the reports of our agents, which contain all that it needs. It has the cache that its README recommends
under churn (pkg/noderesourcetopology/README.md).
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.agent_testbed import PROJECT

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.cluster import Cluster

sys.path.insert(0, str(PROJECT / "tests"))

PROGRAM = "scheduler-plugins"
PLUGIN = "NodeResourceTopologyMatch"
_RESYNC_SECONDS = 5
"""Period of the cache's resynchronization, the shortest that the README recommends."""


def plugin_absence() -> str:
    """Return why the scheduler with the plugin cannot run here, or "" if it can."""
    from support.programs import find_program, missing_program

    return missing_program(PROGRAM) if find_program(PROGRAM) is None else ""


@contextlib.contextmanager
def running_plugin(cluster: Cluster, *flags: str, **cache: str) -> Generator[None]:
    """Run the scheduler on a cluster whose agents have published reports.

    `cache`: fields of the plugin's cache (apis/config/types.go NodeResourceTopologyCache) other than the defaults.
    """
    from support.e2e.cluster import running_scheduler

    args: dict[str, Any] = {
        "scoringStrategy": {"type": "LeastAllocated"},
        "cacheResyncPeriodSeconds": _RESYNC_SECONDS,
        "cache": cache,
    }
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": PLUGIN}]}},
        "pluginConfig": [{"name": PLUGIN, "args": args}],
    }
    with running_scheduler(cluster.kubeconfig, cluster.directory, *flags, program=PROGRAM, profiles=[profile]):
        yield
