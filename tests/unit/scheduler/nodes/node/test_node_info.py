"""NodeInfo: the parts of a node that filters need."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.node.host_ports import ALL_ADDRESSES, HostPort
from zonewise_scheduler.nodes.node.node_info import (
    NodeInfo,
    add_pod,
    available,
    read_node_info,
    read_pod_info,
    remove_pod,
)

GIB = 1 << 30


def node(name: str = "n1", **spec: Any) -> dict[str, Any]:
    labels = {f"feature.example.com/{number}": "true" for number in range(60)}
    return {
        "metadata": {"name": name, "labels": labels | {"kubernetes.io/hostname": name, "rack": f"r{len(name)}"}},
        "spec": spec,
        "status": {
            "allocatable": {
                "cpu": "63500m",
                "memory": "256Gi",
                "pods": "110",
                "nvidia.com/gpu": "8",
                "hugepages-1Gi": "0",
            },
            "nodeInfo": {"kubeletVersion": "v1.36.3-gke.1"},
        },
    }


def pod(port: int = 0, **requests: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    return {"spec": {"containers": [container | {"ports": [{"hostPort": port}] if port else []}]}}


def test_read_node_info() -> None:
    info = read_node_info(node(unschedulable=True, taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    assert info.name == "n1"
    assert info.taints == (Taint("gpu", "", "NoSchedule"),)
    assert info.unschedulable
    assert info.allocatable == Resource(63_500, 256 * GIB, 110, 0, (("nvidia.com/gpu", 8),))
    assert info.release == (1, 36)
    assert (info.label("rack"), info.label("feature.example.com/7"), info.label("none")) == ("r2", "true", None)
    assert available(info) == info.allocatable


@pytest.mark.parametrize(
    ("version", "release"),
    [("v1.31.0", (1, 31)), ("1.37+", (1, 37)), ("v1.36-rc.0", (1, 36)), ("", None), ("main", None)],
)
def test_release(version: str, release: tuple[int, int] | None) -> None:
    assert read_node_info({"status": {"nodeInfo": {"kubeletVersion": version}}}).release == release


def test_add_and_remove_pods() -> None:
    small, large = (
        read_pod_info(pod(cpu="500m")),
        read_pod_info(pod(port=80, cpu="4", memory="1Gi", **{"nvidia.com/gpu": "1"})),
    )
    empty = read_node_info(node())
    both = read_node_info(node(), [small, large])
    assert both.requested == Resource(4500, GIB, 2, 0, (("nvidia.com/gpu", 1),))
    assert both.ports == (HostPort(ALL_ADDRESSES, "TCP", 80),)
    assert available(both) == Resource(59_000, 255 * GIB, 108, 0, (("nvidia.com/gpu", 7),))
    assert remove_pod(both, large) == add_pod(empty, small)
    assert remove_pod(remove_pod(both, small), large) == empty


def test_port_of_two_pods() -> None:
    pod_info = read_pod_info(pod(port=80))
    assert remove_pod(read_node_info(node(), [pod_info, pod_info]), pod_info).ports == pod_info.ports


def test_size_of_a_node() -> None:
    """A node takes less than a kilobyte: nodes of one kind share labels, taints and amounts."""
    pod_infos = [read_pod_info(pod(cpu="500m", memory=f"{number}Mi")) for number in range(1, 30)]
    first, second = (read_node_info(node(name, taints=[{"key": "gpu"}]), pod_infos) for name in ("n1", "n2"))
    assert first.labels.keys is second.labels.keys
    assert first.labels.values is second.labels.values
    assert first.taints is second.taints
    assert first.allocatable is second.allocatable
    assert sum(map(sys.getsizeof, unshared(first))) < 1000


def unshared(node: NodeInfo) -> list[object]:
    """Return the values that a node does not share."""
    return [node, node.name, node.labels, node.requested, *node.requested, node.requested.scalar_resources]


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        ({"metadata": {"labels": {"k": 1}}}, "metadata.labels.k"),
        ({"spec": {"taints": {}}}, "spec.taints"),
        ({"status": {"allocatable": {"cpu": "x"}}}, "status.allocatable.cpu"),
        ({"status": {"nodeInfo": "v1"}}, "status.nodeInfo"),
    ],
)
def test_error_names_the_field(broken: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as error:
        read_node_info(broken)
    assert error.value.field == field
