"""The contract of a kubelet's PodResources API, for the simulated kubelet, and for a real one if available.

Every test takes a node: a socket, and a function that restarts the kubelet. Each further kind of kubelet is one more
entry in NODES.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.kubelets import GIB, pod, simulated
from support.waiting import eventually
from zonewise.kubelet.podresources.client import BURST, PodResourcesClient
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from zonewise.kubelet.types import PodResources


class Node(NamedTuple):
    """A kubelet under test, with the static policies, at least two pods with whole CPUs, and one without."""

    socket: str
    restart: Callable[[], object]


@contextlib.contextmanager
def simulated_node() -> Generator[Node]:
    with simulated() as kubelet:
        kubelet.start(pod("a", 2, memory=GIB, gpus=1))
        kubelet.start(pod("b", 14, memory=GIB, gpus=4))
        kubelet.start(pod("c", 1, guaranteed=False))
        yield Node(str(kubelet.socket), kubelet.restart)


NODES: dict[str, Callable[[], AbstractContextManager[Node]]] = {"simulated": simulated_node}


@pytest.fixture(scope="module", params=list(NODES))
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with NODES[request.param]() as made:
        yield made


@pytest.fixture
def client(node: Node) -> Iterator[PodResourcesClient]:
    made = PodResourcesClient(node.socket)
    yield made
    made.close()


def cpus_held(pods: tuple[PodResources, ...]) -> list[CpuSet]:
    return [container.cpus for one in pods for container in one.containers if container.cpus]


def test_responses_have_no_problems(client: PodResourcesClient) -> None:
    """Our decoder reports no problem."""
    client.list()
    client.allocatable()
    assert client.problems == ()


def test_pods_without_exclusive_resources_are_listed(client: PodResourcesClient) -> None:
    """List contains all active pods."""
    pods = client.list()
    assert list(pods) == sorted(pods, key=lambda one: (one.namespace, one.name))
    assert len(cpus_held(pods)) >= 2
    assert any(not cpus_held((one,)) for one in pods)


def test_cpus_are_exclusive(client: PodResourcesClient) -> None:
    """Each allocated CPU is allocated once, and is allocatable."""
    held = cpus_held(client.list())
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(held, 2))
    assert CpuSet.union(held) <= client.allocatable().cpus


def test_memory_is_allocatable_by_zone(client: PodResourcesClient) -> None:
    """Each block is in zones with memory of its type, and is not larger than their total."""
    allocatable = {(block.type, block.zones[0]): block.size for block in client.allocatable().memory}
    assert allocatable
    for block in (block for one in client.list() for container in one.containers for block in container.memory):
        assert block.size <= sum(allocatable[block.type, zone] for zone in block.zones)


def test_allocated_devices_are_allocatable(client: PodResourcesClient) -> None:
    """Both methods report the same zones for a healthy device."""
    known = {(some.resource, device): some.zones for some in client.allocatable().devices for device in some.ids}
    for some in (some for one in client.list() for container in one.containers for some in container.devices):
        assert all(known[some.resource, device] == some.zones for device in some.ids)


def test_no_call_within_our_own_limit_is_rejected(client: PodResourcesClient) -> None:
    """Our own rate limit is below that of the kubelet, so it rejects no call."""
    pods = client.list()
    assert all(client.list() == pods for _ in range(BURST + 20))


def test_a_restart(node: Node, client: PodResourcesClient) -> None:
    """The socket is recreated and the next call succeeds; soon, pods have their former resources.

    A real kubelet responds before it knows its pods, so the resources are not there at once.
    """
    before = cpus_held(client.list())
    node.restart()
    client.list()
    eventually(lambda: cpus_held(client.list()) == before)
