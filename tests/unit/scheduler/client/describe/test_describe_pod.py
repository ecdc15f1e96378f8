"""The description of a pod by `zonewise explain`."""

from __future__ import annotations

from typing import Any

from support.command_cluster import GPU
from zonewise_common.cli.terminal import Terminal
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import Holdings, holdings_key
from zonewise_scheduler.client.describe.describe_pod import describe_pod, held_text
from zonewise_scheduler.client.describe.description import render_description
from zonewise_scheduler.client.jobs.pod_facts import PodFacts, read_pod_facts
from zonewise_scheduler.client.nodes.node_facts import NodeAvailability

NOW = 1_767_225_600.0
POD = PodFacts(
    "ns", "a-0", "node-1", "Running", {"cpu": 4000}, "job-a", "a", "main zones=0 cpus=4-7", created_at=NOW - 90
)
HELD = Holdings(CpuSet.parse_list("4-7").bits, ((GPU, 1, 1), ("memory", 3, 8 << 30)))


def lines(pod: PodFacts, node: NodeAvailability | None = None) -> list[str]:
    return render_description(describe_pod(pod, node, (), NOW), "table", Terminal()).splitlines()


def test_predicted_and_actual_resources() -> None:
    node = NodeAvailability("node-1", zones=(), holdings={holdings_key("ns", "a-0"): HELD})
    assert lines(POD, node) == [
        "Pod ns/a-0",
        "phase      Running, created 1m30s ago",
        "job        a",
        "requests   4 cpu",
        "node       node-1",
        "predicted  main zones=0 cpus=4-7",
        "holds      CPUs 4-7, 1 nvidia.com/gpu of zone 0, 8Gi memory of zones 0-1",
    ]


def test_unknown_resources_are_stated() -> None:
    assert "holds      unknown: its node has no NodeResourceTopology" in lines(POD, NodeAvailability("node-1"))
    shared = NodeAvailability("node-1", zones=())
    assert "holds      nothing exclusively, according to the report of its node" in lines(POD, shared)
    assert held_text(Holdings()) == "nothing"


def test_a_rejection() -> None:
    rejected = POD._replace(phase="Failed", reason="TopologyAffinityError", message="Resources cannot be allocated")
    assert rejected.is_rejected
    assert "rejected   TopologyAffinityError: Resources cannot be allocated" in lines(rejected)
    assert not POD._replace(phase="Failed", reason="Evicted").is_rejected


def test_a_pod_that_waits() -> None:
    obj: dict[str, Any] = {
        "metadata": {"namespace": "ns", "name": "p"},
        "spec": {
            "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}, {"name": "example.com/x"}],
            "containers": [],
        },
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "gated"}]},
    }
    said = lines(read_pod_facts(obj, []))
    assert "waits     waits in the queue: `zonewise explain p` gives the reason" in said
    assert "          has the scheduling gate example.com/x" in said
    of_job = read_pod_facts(obj, [])._replace(job="train")
    assert "waits     waits in the queue: `zonewise explain train` gives the reason" in lines(of_job)
    obj["spec"]["schedulingGates"] += [{"name": "kueue.x-k8s.io/topology"}]
    assert lines(read_pod_facts(obj, [])) == said  # it gets its node after its admission
    del obj["spec"]["schedulingGates"][0]
    assert "          waits for its node: all pods of its job must exist first" in lines(read_pod_facts(obj, []))
    obj["spec"]["schedulingGates"] = []
    assert "unscheduled  gated" in lines(read_pod_facts(obj, []))


def test_containers_with_problems() -> None:
    statuses = [
        {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
        {"name": "b", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
        {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}},
    ]
    pod = read_pod_facts({"metadata": {"name": "p"}, "status": {"containerStatuses": statuses}}, [])
    assert pod.container_problems == (
        "container a: ImagePullBackOff: no such image",
        "container b: exit code 137 (OOMKilled)",
    )
