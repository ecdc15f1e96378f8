"""Decoding of pods, nodes and reports: a damaged field invalidates only that field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.extender import build_nrt, build_pod
from support.fit_nodes import STATIC, container, node, pod
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.extender.objects import api_objects
from zonewise_scheduler.extender.objects.api_objects import (
    MAX_REPORT_BYTES,
    ObservedPod,
    decode_node,
    decode_pod,
    decode_report,
)

SHAPE = pod(container(cpus=2, gib=1))
NODE = node(topology="single-numa-node", **STATIC)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def observe(spec: dict[str, Any] | None = None, **status: Any) -> ObservedPod:
    body = build_pod("p", SHAPE)
    body["metadata"]["uid"] = "uid-1"
    body["spec"] |= spec or {}
    return decode_pod(raw(body | {"status": status}))


def test_a_pod() -> None:
    """A bound pod is decoded with its shape and its start time."""
    pod_info = observe({"nodeName": "n"}, phase="Running", startTime="2026-01-01T00:00:10Z")
    assert pod_info._replace(info=None) == ObservedPod("uid-1", "lab", "p", SHAPE, "n", "Running", 1767225610.0)
    assert not pod_info.terminal
    assert not pod_info.rejected


@pytest.mark.parametrize(
    ("phase", "reason", "terminal", "rejected"),
    [
        ("Pending", "", False, False),
        ("Running", "TopologyAffinityError", False, False),
        ("Succeeded", "", True, False),
        ("Failed", "", True, False),
        ("Failed", "Evicted", True, False),
        ("Failed", "TopologyAffinityError", True, True),
        ("Failed", "SMTAlignmentError", True, True),
        ("Failed", "UnexpectedAdmissionError", True, True),
        ("Failed", "OutOfcpu", True, True),
        ("Failed", "OutOfexample.com/gpu", True, True),
    ],
)
def test_terminal_phases(phase: str, reason: str, terminal: bool, rejected: bool) -> None:
    """A rejected pod is one that failed with an admission reason; any other terminal pod has run."""
    pod_info = observe(phase=phase, reason=reason)
    assert (pod_info.terminal, pod_info.rejected) == (terminal, rejected)


def test_a_pod_that_is_too_large(caplog: pytest.LogCaptureFixture) -> None:
    """A pod beyond the limits has no shape, even if it is bound: its admission is never computed."""
    one = build_pod("p", SHAPE)["spec"]["containers"][0]
    pod_info = observe({"containers": [one | {"name": f"c{number}"} for number in range(3000)], "nodeName": "n"})
    assert (pod_info.shape, pod_info.node) == (None, "n")
    assert "3000 containers" in caplog.text


def test_the_scheduling_fields_of_a_pod_that_is_too_large() -> None:
    """The pod still counts on its node, with its requests, its required anti-affinity and its priority."""
    one = build_pod("p", SHAPE)["spec"]["containers"][0]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    pod_info = observe(
        {
            "containers": [one | {"name": f"c{number}"} for number in range(25)],
            "nodeName": "n",
            "priority": 7,
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        }
    )
    assert pod_info.info is not None
    assert pod_info.info.requests.milli_cpus == 25 * 2000
    assert len(pod_info.anti_affinity) == 1
    assert pod_info.victim.priority == 7


def test_a_pod_with_an_invalid_spec(caplog: pytest.LogCaptureFixture) -> None:
    """A damaged quantity is logged, and the pod has no shape; the other fields are decoded."""
    broken = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}], "nodeName": "n"}
    pod_info = observe(broken, phase="Running")
    assert (pod_info.shape, pod_info.node, pod_info.phase) == (None, "n", "Running")
    assert "pod=lab/p counts in no zone: spec.containers[0].resources.requests" in caplog.text
    assert "many" in caplog.text


@pytest.mark.parametrize("time", [None, "", "yesterday", 7])
def test_an_invalid_start_time(time: object) -> None:
    """An invalid start time is decoded as unknown, not as zero."""
    assert observe(startTime=time).started is None


def test_a_report() -> None:
    """A report has the state of its node, the rules of its kubelet's release, and the time of its last write."""
    body = build_nrt("n", NODE)
    body["metadata"]["managedFields"] = [
        {"manager": "a", "time": "2026-01-01T00:00:10Z"}, {"manager": "b", "time": "2026-01-01T00:00:30Z"}, {}
    ]  # fmt: skip
    decoded = decode_report(raw(body), KindInterner(), {"n": (1, 33)}.__getitem__)
    assert decoded.published == 1767225630.0
    assert decoded.report.node == "n"
    assert decoded.report.state is not None
    assert decoded.report.state.kind.policies == NODE.kind.policies._replace(release=(1, 33))


def test_a_damaged_report(caplog: pytest.LogCaptureFixture) -> None:
    """A damaged quantity is logged, and the rest of the report is used."""
    body = build_nrt("n", NODE)
    body["zones"][0]["resources"][0]["available"] = "some"
    decoded = decode_report(raw(body), KindInterner(), lambda _: (1, 36))
    assert decoded.published is None
    assert "node=n report: zones[0].resources[0] (cpu)" in caplog.text


@pytest.mark.parametrize("kind", ["large", "managed", "defect"])
def test_an_unreadable_report(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable report affects only its node: the node has no state, and a problem states the reason."""
    body = build_nrt("n", NODE)
    body["metadata"]["resourceVersion"] = "7"
    if kind == "large":
        body["padding"] = "x" * MAX_REPORT_BYTES
    elif kind == "managed":
        body["metadata"]["managedFields"] = [5]
    else:
        monkeypatch.setattr(api_objects, "read_nrt", None)
    decoded = decode_report(raw(body), KindInterner(), lambda _: (1, 36))
    assert (decoded.report.node, decoded.report.version, decoded.report.state) == ("n", "7", None)
    (problem,) = decoded.report.problems
    assert problem.startswith("object: ")


def test_a_node() -> None:
    """A node is decoded with the release of its kubelet."""
    body = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "v1.35.2"}}}
    assert decode_node(raw(body)).release == (1, 35)


@pytest.mark.parametrize("decode", [decode_pod, decode_node])
def test_a_value_that_is_not_an_object(decode: Any) -> None:
    """A value that is not a JSON object raises an error; the reflector then keeps its last state."""
    with pytest.raises(msgspec.DecodeError):
        decode(msgspec.Raw(b"[]"))


def test_a_pod_with_an_infeasible_resize() -> None:
    """Its shape has the CPUs that its kubelet has allocated; kube-scheduler counts the same."""
    allocated = {"cpu": "6", "memory": "1Gi"}
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    statuses = [{"name": "c0", "resources": {"requests": allocated}, "allocatedResources": allocated}]
    observed = observe({"nodeName": "n"}, phase="Running", conditions=[pending], containerStatuses=statuses)
    assert observed.shape == pod(container(cpus=6, gib=1))
    assert observed.info is not None
    assert observed.info.requests.milli_cpus == 6_000
