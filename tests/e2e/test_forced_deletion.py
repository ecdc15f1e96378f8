"""The resources of a deleted pod are available to the next pod even if the kubelet has not stopped the deleted one."""

from __future__ import annotations

import os
import signal

import pytest

from support.e2e.cluster import PODS, running_cluster, skip_reason
from support.e2e.pods import container, pod
from support.e2e.settings import Settings

pytestmark = pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))

ZONE = container(cpu="14", memory="200Gi")
"""Most of a zone: no second pod of this size fits into it."""


def test_the_next_pod_gets_the_resources_of_a_deleted_pod() -> None:
    """A pod is deleted by force while the kubelet is paused, and the next pod is bound at once: the kubelet admits it.

    The node ledger relies on this (nodes/assumed/node_ledger.py, rule 3).
    """
    settings = Settings(topology="single-numa-node")
    with running_cluster({"node-0": settings}) as cluster:
        cluster.create([bound("first"), bound("second")])
        cluster.settled(["first", "second"], lambda made: made["status"].get("phase") == "Running")
        kubelet = cluster.nodes["node-0"].kubelet
        os.kill(kubelet.pid, signal.SIGSTOP)
        try:
            cluster.server.admin.delete(f"{PODS}/first", gracePeriodSeconds=0).ok()
            cluster.create([bound("third"), bound("fourth")])
        finally:
            os.kill(kubelet.pid, signal.SIGCONT)
        settled = cluster.settled(["third", "fourth"], lambda made: made["status"].get("phase") != "Pending")
        phases = sorted(made["status"]["phase"] for made in settled.values())
        assert phases == ["Failed", "Running"], "one fits where the deleted one was, and no other"


def bound(name: str) -> dict[str, object]:
    made = pod(name, ZONE, restart="Never")
    made["spec"]["nodeName"] = "node-0"
    return made
