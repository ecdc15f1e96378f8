"""If a stop is decided while another write of the pod is in flight, the pod is stopped whatever becomes of it."""

from __future__ import annotations

import pytest

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.bindings import BINDING, binding
from zonewise_common.kube.resources import CLUSTER_QUEUES, PODS
from zonewise_scheduler.controller.pods.pod_binder import BIND
from zonewise_scheduler.controller.pods.ungate import UNGATE
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.writing.outcome import Outcome

STEPS = 10


@pytest.mark.parametrize("purpose", [BIND, UNGATE])
def test_the_pod_is_stopped_after_a_rejected_write(purpose: str) -> None:
    clock = [1_800_000_000.0]
    cluster = ModelCluster()
    template = queued_pod("p", group="", cpu="2")
    labels = {**template["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "l"}
    metadata = {"labels": labels, "annotations": template["metadata"].get("annotations", {}),
                "finalizers": template["metadata"].get("finalizers", [])}  # fmt: skip
    spec = {**template["spec"], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    pod = cluster.create(PODS, "ns", "p", metadata=metadata, spec=spec, status=template["status"])
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: clock[0])
    queue.settle()
    [workload] = cluster.workloads()
    assert is_true(workload, "Admitted")
    uid, name = cluster.get(pod)["metadata"]["uid"], f"ns/{workload['metadata']['name']}"
    write = Write(Verb.CREATE, pod, purpose, binding("p", uid, "n"), BINDING, uid, workload=name)
    assert queue.controller.claim(write)
    cluster.change(ObjectKey(CLUSTER_QUEUES, "", "q"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    queue.settle()
    assert is_true(cluster.workloads()[0], "Evicted")
    assert pod in cluster.objects, "a write of it is on its way"
    queue.controller.end_write(write, Outcome("rejected", message="403: a policy denies pods/binding"), clock[0])
    for _ in range(STEPS):
        clock[0] += 60
        queue.step()
    assert pod not in cluster.objects or cluster.get(pod)["status"]["conditions"][-1]["type"] == "TerminationTarget"
