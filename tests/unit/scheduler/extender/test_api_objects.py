"""What is kept of pods and reports, and that damage costs no more than what is damaged."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.extender import build_nrt, build_pod
from support.fit_nodes import STATIC, container, node, pod
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.extender.api_objects import ObservedPod, decode_node, decode_pod, decode_report

SHAPE = pod(container(cpus=2, gib=1))
NODE = node(topology="single-numa-node", **STATIC)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def seen(spec: dict[str, Any] | None = None, **status: Any) -> ObservedPod:
    made = build_pod("p", SHAPE)
    made["metadata"]["uid"] = "uid-1"
    made["spec"] |= spec or {}
    return decode_pod(raw(made | {"status": status}))


def test_a_pod() -> None:
    """A pod on a node, with what it asks for and when its kubelet took it."""
    found = seen({"nodeName": "n"}, phase="Running", startTime="2026-01-01T00:00:10Z")
    assert found == ObservedPod("uid-1", "lab", "p", SHAPE, "n", "Running", 1767225610.0)
    assert not found.terminal
    assert not found.rejected


@pytest.mark.parametrize(
    ("phase", "reason", "finished", "refused"),
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
def test_ends(phase: str, reason: str, finished: bool, refused: bool) -> None:
    """A refused pod is one that failed with a reason of admission; others that ended have run."""
    found = seen(phase=phase, reason=reason)
    assert (found.terminal, found.rejected) == (finished, refused)


def test_a_pod_that_nobody_can_read(caplog: pytest.LogCaptureFixture) -> None:
    """A damaged quantity costs the shape, and is said; what else is known of the pod stays."""
    broken = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}], "nodeName": "n"}
    found = seen(broken, phase="Running")
    assert (found.shape, found.node, found.phase) == (None, "n", "Running")
    assert "pod=lab/p is not charged to any zone: spec.containers[0].resources.requests" in caplog.text
    assert "many" in caplog.text


@pytest.mark.parametrize("time", [None, "", "yesterday", 7])
def test_no_time(time: object) -> None:
    """A start time that is none is not known, which is not zero."""
    assert seen(startTime=time).started is None


def test_a_report() -> None:
    """A report has its node's state, with the rules of the release of its kubelet, and when it was last written."""
    made = build_nrt("n", NODE)
    made["metadata"]["managedFields"] = [
        {"manager": "a", "time": "2026-01-01T00:00:10Z"}, {"manager": "b", "time": "2026-01-01T00:00:30Z"}, {}
    ]  # fmt: skip
    found = decode_report(raw(made), KindInterner(), {"n": (1, 33)}.__getitem__)
    assert found.published == 1767225630.0
    assert found.report.node == "n"
    assert found.report.state is not None
    assert found.report.state.kind.policies == NODE.kind.policies._replace(release=(1, 33))


def test_a_damaged_report(caplog: pytest.LogCaptureFixture) -> None:
    """What is damaged in a report is said, and the report is told nevertheless."""
    made = build_nrt("n", NODE)
    made["zones"][0]["resources"][0]["available"] = "some"
    found = decode_report(raw(made), KindInterner(), lambda _: (1, 36))
    assert found.published is None
    assert "node=n report: zones[0].resources[0] (cpu)" in caplog.text


def test_a_node() -> None:
    """A node tells the release of its kubelet."""
    made = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "v1.35.2"}}}
    assert decode_node(raw(made)).release == (1, 35)


@pytest.mark.parametrize("see", [decode_pod, decode_node])
def test_no_object(see: Any) -> None:
    """What is no object at all is an error for the reflector, which keeps what was known."""
    with pytest.raises(msgspec.DecodeError):
        see(msgspec.Raw(b"[]"))
