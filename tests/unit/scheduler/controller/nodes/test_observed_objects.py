"""Pods, nodes and reports in the form in which they are tracked."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.extender import NAMESPACE, build_nrt, build_pod
from support.fit_nodes import container, node
from support.fit_nodes import pod as shape
from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.taints import UNSCHEDULABLE, Taint
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.controller.nodes.observed_objects import decode_node, decode_pod, decode_report
from zonewise_scheduler.controller.nodes.types import NodeHealth
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.nodes.node.pod_requests import bound_pod_requests

Json = dict[str, Any]


def raw(obj: Json) -> bytes:
    return json.dumps(obj).encode()


def bound(**metadata: Any) -> Json:
    obj = build_pod("p0", shape(container(cpus=2, gib=1)))
    obj["metadata"] |= metadata
    obj["spec"]["nodeName"] = "a"
    obj["status"] = {"phase": "Running"}
    return obj


def test_pod_of_a_workload() -> None:
    """The annotation and the label of a started job name the workload and the pod set."""
    obj = bound(
        annotations={"kueue.x-k8s.io/workload": "job-train"}, labels={"kueue.x-k8s.io/podset": "workers", "a": "b"}
    )
    tracked = decode_pod(raw(obj))
    assert (tracked.workload, tracked.pod_set, tracked.node) == (f"{NAMESPACE}/job-train", "workers", "a")
    assert tracked.active


def test_pod_outside_the_queue() -> None:
    """A pod without the annotation has no workload; pods of the same template share their requests."""
    first, second = decode_pod(raw(bound())), decode_pod(raw(bound(name="p1")))
    assert (first.workload, first.pod_set) == ("", "")
    assert first.requests == bound_pod_requests(bound())
    assert first.requests is second.requests


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pod_requests_nothing(phase: str) -> None:
    """A pod in a final phase is not active."""
    tracked = decode_pod(raw(bound() | {"status": {"phase": phase}}))
    assert (tracked.active, tracked.requests) == (False, None)


def test_unbound_pod_requests_nothing_of_a_node() -> None:
    """A pod without a node is active."""
    obj = bound()
    del obj["spec"]["nodeName"]
    del obj["status"]
    tracked = decode_pod(raw(obj))
    assert (tracked.active, tracked.node, tracked.requests) == (True, "", None)


def test_requests_include_everything_that_bound_pods_use() -> None:
    """Sidecars, overhead, pod-level resources and resizes count as they do in a node's NodeInfo."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    resized = {"name": "app", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}}
    for spec, status in (
        ({"initContainers": [{"name": "s", "restartPolicy": "Always", "resources": resources}]}, {}),
        ({"overhead": {"cpu": "250m"}}, {}),
        ({"resources": {"requests": {"cpu": "6"}}}, {"resources": {"requests": {"cpu": "7"}}}),
        ({"containers": [{"name": "app", "resources": resources}]}, {"containerStatuses": [resized]}),
        (
            {"containers": [{"name": "app", "resources": {"requests": {"cpu": "9"}}}]},
            {
                "containerStatuses": [resized],
                "conditions": [{"type": "PodResizePending", "reason": "Infeasible", "message": "m"}],
            },
        ),
    ):
        obj = bound()
        obj["spec"] |= spec
        obj["status"] |= status
        assert decode_pod(raw(obj)).requests == bound_pod_requests(obj)


def test_invalid_pods_raise() -> None:
    """An object that the API server would reject raises an error of its own type."""
    with pytest.raises(msgspec.DecodeError):
        decode_pod(b'{"metadata": {"name": 7}}')
    obj = bound()
    obj["spec"]["overhead"] = {"cpu": "much"}
    with pytest.raises(FieldError, match="cpu"):
        decode_pod(raw(obj))


NODE: Json = {
    "metadata": {"name": "a", "labels": {"rack": "x"}, "annotations": {"long": "text"}, "managedFields": [{}]},
    "spec": {"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "8", "pods": "110"},
        "capacity": {"cpu": "8", "example.com/gpu": "4"},
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {
                "type": "Ready",
                "status": "False",
                "lastHeartbeatTime": "2026-01-01T00:00:09Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            },
        ],
        "images": [{"names": ["i"]}],
        "nodeInfo": {"kubeletVersion": "v1.36.2"},
    },
}


def test_tracked_node_keeps_the_fields_that_the_planner_reads() -> None:
    """The slim object has the same NodeInfo, and a heartbeat does not change it."""
    tracked = decode_node(raw(NODE))
    assert read_node_info(json.loads(tracked.content)) == read_node_info(NODE)
    assert tracked.health == NodeHealth(
        ready=False,
        ready_since=1767225600.0,
        no_execute=(Taint("k", "", "NoExecute"),),
        closing=(Taint("k", "", "NoExecute"), Taint("k", "", "NoSchedule")),
    )
    later = json.loads(json.dumps(NODE))
    later["status"]["conditions"][1]["lastHeartbeatTime"] = "2026-01-01T00:05:09Z"
    later["metadata"]["resourceVersion"] = "9"
    assert decode_node(raw(later)) == tracked
    assert decode_node(raw({"metadata": {"name": "a"}})).health == NodeHealth(ready=False, ready_since=None)


def test_a_node_is_closed_by_its_cordon_and_by_taints_that_keep_pods_off() -> None:
    """Taints that follow from the condition Ready do not count, nor does an effect that only discourages."""
    taints = [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": "end", "effect": "NoExecute"},
    ]
    tainted = decode_node(raw({"metadata": {"name": "a"}, "spec": {"taints": taints}}))
    assert tainted.health.closing == (Taint("gpu", "yes", "NoSchedule"), Taint("end", "", "NoExecute"))
    cordoned = decode_node(raw({"metadata": {"name": "a"}, "spec": {"unschedulable": True}}))
    assert cordoned.health.closing == (UNSCHEDULABLE,)


def test_the_hostname_is_that_of_the_label_or_the_name() -> None:
    assert decode_node(raw(NODE)).hostname == "a"
    labels = {"kubernetes.io/hostname": "host-a"}
    assert decode_node(raw({"metadata": {"name": "a", "labels": labels}})).hostname == "host-a"


@pytest.mark.parametrize(
    "damage",
    [
        {"metadata": {}},
        {"metadata": {"name": "a"}, "spec": {"taints": 7}},
        {"metadata": {"name": "a", "labels": 7}},
        {"metadata": {"name": "a", "labels": {"kubernetes.io/hostname": 7}}},
    ],
)
def test_invalid_nodes_raise(damage: Json) -> None:
    """The error names the field."""
    with pytest.raises(FieldError, match=r"metadata\.name|taints|metadata\.labels"):
        decode_node(raw(damage))


def test_tracked_report_keeps_the_fields_that_are_read() -> None:
    """The content gives the same state and does not change with every write."""
    nrt = build_nrt("a", node(2, 4, topology="single-numa-node", cpu="static", memory="Static"))
    written = {**nrt, "metadata": {"name": "a", "resourceVersion": "7", "managedFields": [{"manager": "agent"}]}}
    tracked = decode_report(raw(written))
    interner = KindInterner()
    assert tracked.node == "a"
    assert read_nrt(json.loads(tracked.content), interner) == read_nrt(nrt, interner)
    assert tracked == decode_report(raw({**written, "metadata": {"name": "a", "resourceVersion": "8"}}))
    assert decode_report(raw({"metadata": {"name": "a"}})).node == "a"


def test_a_change_of_an_avoided_condition_is_a_change_of_health() -> None:
    condition = {"type": "GPUHardwareFault", "status": "True", "reason": "XID79"}
    node = {"metadata": {"name": "a"}, "status": {"conditions": [condition]}}
    [taint] = decode_node(raw(node), ("GPUHardwareFault",)).health.avoided
    assert taint.value == "GPUHardwareFault XID79"
    assert decode_node(raw(node)).health.avoided == ()
