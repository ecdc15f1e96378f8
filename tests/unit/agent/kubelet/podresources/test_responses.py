"""Decoding of PodResources API responses: recorded, random and damaged ones."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from support.kubelets import ALLOCATABLES, PODS
from support.snapshots import PROJECT
from zonewise.kubelet.errors import BadResponse
from zonewise.kubelet.podresources.responses import POD_LEVEL_CONTAINER, decode_allocatable, decode_list
from zonewise.kubelet.podresources.v1 import podresources_pb2 as pb
from zonewise.kubelet.types import (
    NO_ZONE,
    Allocatable,
    ClaimedDevice,
    ContainerDevices,
    ContainerResources,
    MemoryBlock,
    PodResources,
)
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_sandbox.kubelet.podresources_messages import encode_allocatable, encode_list

TRACES = PROJECT.parent / "shared" / "cases" / "kubelet_traces.json"
GIB = 1 << 30


def traces() -> list[dict[str, Any]]:
    """Return responses of a real kubelet 1.36; empty if they are not beside the project."""
    return json.loads(TRACES.read_text()) if TRACES.exists() else []


def listed(*containers: pb.ContainerResources, **pod: Any) -> tuple[tuple[ContainerResources, ...], tuple[str, ...]]:
    """Return the decoded containers and problems of a List with one pod."""
    message = pb.PodResources(namespace="lab", name="a", containers=containers, **pod)
    pods, problems = decode_list(pb.ListPodResourcesResponse(pod_resources=[message]).SerializeToString())
    return pods[0].containers, problems


def device(resource: str, name: str, *zones: int) -> pb.ContainerDevices:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=zone) for zone in zones]) if zones else None
    return pb.ContainerDevices(resource_name=resource, device_ids=[name], topology=topology)


def block(kind: str, size: int, *zones: int) -> pb.ContainerMemory:
    return pb.ContainerMemory(
        memory_type=kind, size=size, topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=zone) for zone in zones])
    )


# --- what a real kubelet sends


@pytest.mark.skipif(not TRACES.exists(), reason="the kubelet's traces are not beside the project")
@pytest.mark.parametrize("trace", traces(), ids=lambda trace: trace["name"][:40])
def test_recorded_responses_are_consistent(trace: dict[str, Any]) -> None:
    """Nothing in a recorded response is dropped, and its CPUs are those in the state file."""
    response = json_format.ParseDict(trace["list"], pb.ListPodResourcesResponse())
    pods, problems = decode_list(response.SerializeToString())
    assert problems == ()
    entries = trace["cpu_manager_state"].get("entries", {})
    in_file = {str(CpuSet.parse_list(cpus)) for containers in entries.values() for cpus in containers.values()}
    assert {str(container.cpus) for pod in pods for container in pod.containers if container.cpus} <= in_file
    response = json_format.ParseDict(trace["get_allocatable"], pb.AllocatableResourcesResponse())
    allocatable, problems = decode_allocatable(response.SerializeToString())
    assert problems == ()
    assert str(allocatable.cpus) == "1-15,17-31"
    assert [(b.type, b.size, b.zones) for b in allocatable.memory][-2:] == [
        ("memory", 6979321856, (0,)),
        ("memory", 6442450944, (1,)),
    ]


@pytest.mark.skipif(not TRACES.exists(), reason="the kubelet's traces are not beside the project")
def test_real_devices() -> None:
    """A device in two zones is one device. -1 remains if it is the only zone, as does a device without a topology."""
    (trace,) = [trace for trace in traces() if trace["name"].startswith("devices:")]
    response = json_format.ParseDict(trace["get_allocatable"], pb.AllocatableResourcesResponse())
    assert decode_allocatable(response.SerializeToString()).allocatable.devices == (
        ContainerDevices("lab.io/dev", ("dn",), ()),
        ContainerDevices("lab.io/dev", ("d0", "d0b"), (0,)),
        ContainerDevices("lab.io/dev", ("dm",), (0, 1)),
        ContainerDevices("lab.io/dev", ("d1", "d1b"), (1,)),
        ContainerDevices("lab.io/neg", ("gneg",), (NO_ZONE,)),
        ContainerDevices("lab.io/neg", ("g0",), (0,)),
        ContainerDevices("lab.io/notopo", ("n0", "n1"), ()),
    )


# --- special cases


def test_pods_are_sorted_and_containers_are_not() -> None:
    """Pods are sorted by namespace and name. The order of containers is significant, that of pods is not."""
    messages = [
        pb.PodResources(
            namespace=namespace, name=name, containers=[pb.ContainerResources(name=letter) for letter in "zam"]
        )
        for namespace, name in [("b", "a"), ("a", "z"), ("a", "b")]
    ]
    pods = decode_list(pb.ListPodResourcesResponse(pod_resources=messages).SerializeToString()).pods
    assert [(one.namespace, one.name) for one in pods] == [("a", "b"), ("a", "z"), ("b", "a")]
    assert [container.name for container in pods[0].containers] == ["z", "a", "m"]


def test_entries_of_a_device_are_merged() -> None:
    """Entries of one device are merged, in any order: its zones are combined, and it is listed once."""
    devices = [device("gpu", "b", 1), device("gpu", "a", 0), device("gpu", "b", 0), device("gpu", "a", 0)]
    (container,), problems = listed(pb.ContainerResources(name="c", devices=devices))
    assert container.devices == (ContainerDevices("gpu", ("a",), (0,)), ContainerDevices("gpu", ("b",), (0, 1)))
    assert problems == ()


def test_impossible_zones() -> None:
    """A plugin may write -1 for "none". Any other impossible zone is treated alike and reported."""
    devices = [device("gpu", "a", -1), device("gpu", "b", -1, 2), device("nic", "c", -7, 1 << 40)]
    (container,), problems = listed(pb.ContainerResources(name="c", devices=devices))
    assert container.devices == (
        ContainerDevices("gpu", ("a",), (NO_ZONE,)),
        ContainerDevices("gpu", ("b",), (2,)),
        ContainerDevices("nic", ("c",), (NO_ZONE,)),
    )
    assert problems == ("pod lab/a, container c: nic: NUMA node -7, 1099511627776 outside 0..1023; left out",)


def test_impossible_cpus() -> None:
    """Impossible CPU ids are dropped and reported, with a few of them by name; the others are used."""
    (container,), problems = listed(pb.ContainerResources(name="c", cpu_ids=[5, -1, 2, 8192, *range(70000, 70008)]))
    assert container.cpus == CpuSet([2, 5])
    (problem,) = problems
    assert problem.startswith("pod lab/a, container c: cpu_ids: -1, 8192, 70000")
    assert problem.endswith("and 2 more outside 0..8191; left out")


def test_memory_is_sorted() -> None:
    """Zones are in ascending order, and blocks are sorted by type."""
    (container,), _ = listed(
        pb.ContainerResources(name="c", memory=[block("memory", 9 * GIB, 1, 0), block("hugepages-2Mi", GIB, 1)])
    )
    assert container.memory == (MemoryBlock("hugepages-2Mi", GIB, (1,)), MemoryBlock("memory", 9 * GIB, (0, 1)))


def test_claimed_devices_that_repeat_are_one() -> None:
    """The kubelet repeats claimed devices (kubernetes#141335); a share is a separate device."""
    resources = [
        pb.ClaimResource(driver_name="d", pool_name="p", device_name="gpu-0", cdi_devices=[pb.CDIDevice(name="x")]),
        pb.ClaimResource(driver_name="d", pool_name="p", device_name="gpu-0"),
        pb.ClaimResource(driver_name="d", pool_name="p", device_name="gpu-0", share_id="s"),
    ]
    claim = pb.DynamicResource(claim_name="c", claim_namespace="lab", claim_resources=resources)
    (container,), _ = listed(pb.ContainerResources(name="c", dynamic_resources=[claim, claim]))
    gpu = ClaimedDevice("d", "p", "gpu-0", "lab/c")
    assert container.claimed == (gpu, gpu._replace(share="s"))


def test_what_containers_of_a_pod_share() -> None:
    """Since 1.37, a pod lists all its resources. Those beyond its containers become an additional container."""
    own = pb.ContainerResources(name="own", cpu_ids=[2, 3], memory=[block("memory", 2 * GIB, 0)])
    containers, problems = listed(
        own, pb.ContainerResources(name="shares"), cpu_ids=[5, 4, 3, 2], memory=[block("memory", 5 * GIB, 0)]
    )
    assert [container.name for container in containers] == ["own", "shares", POD_LEVEL_CONTAINER]
    assert containers[-1] == ContainerResources(
        POD_LEVEL_CONTAINER, CpuSet([4, 5]), memory=(MemoryBlock("memory", 3 * GIB, (0,)),)
    )
    assert problems == ()


def test_nothing_shared() -> None:
    """If the containers hold everything that the pod holds, no container is added."""
    own = pb.ContainerResources(name="own", cpu_ids=[2, 3], memory=[block("memory", 2 * GIB, 0)])
    containers, _ = listed(own, cpu_ids=[2, 3], memory=[block("memory", 2 * GIB, 0)])
    assert [container.name for container in containers] == ["own"]


def test_unknown_fields_are_ignored() -> None:
    """A field number outside the agent's definition is ignored."""
    response = encode_list([PodResources("lab", "a")]).SerializeToString()
    assert decode_list(response + bytes([15 << 3 | 2, 3]) + b"new").pods == (PodResources("lab", "a"),)


def test_allocatable_of_a_kubelet_that_starts() -> None:
    """An empty response is an empty value, not an error."""
    assert decode_allocatable(b"") == (Allocatable(), ())


# --- arbitrary responses


@given(PODS)
def test_any_pods_are_decoded(pods: tuple[PodResources, ...]) -> None:
    """Any pods that a kubelet can report are decoded without a problem."""
    assert decode_list(encode_list(reversed(pods)).SerializeToString()) == (pods, ())


@given(ALLOCATABLES)
def test_any_allocatable_resources_are_decoded(allocatable: Allocatable) -> None:
    """Any allocatable resources are decoded without a problem."""
    assert decode_allocatable(encode_allocatable(allocatable).SerializeToString()) == (allocatable, ())


@given(
    st.binary(max_size=200)
    | st.tuples(PODS, st.integers(0, 10**6), st.integers(0, 255)).map(lambda made: garbled(*made))
)
def test_damage_is_an_error_or_a_response(response: bytes) -> None:
    """Whatever the bytes are, the only exception is BadResponse."""
    for decode in (decode_list, decode_allocatable):
        with contextlib.suppress(BadResponse):
            decode(response)


def garbled(pods: tuple[PodResources, ...], position: int, byte: int) -> bytes:
    """Return a response with one byte changed."""
    content = bytearray(encode_list(pods).SerializeToString() or b"\n")
    content[position % len(content)] = byte
    return bytes(content)
