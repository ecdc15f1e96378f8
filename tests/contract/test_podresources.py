"""What a kubelet's PodResources API keeps to, whatever the kubelet: the simulated one, and a real one where it is.

Every test takes a node: a socket, and what was asked of the kubelet behind it. A further kind of kubelet is one more
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
    """A kubelet under test, with the static policies, two pods of whole CPUs at least, and one that has none."""

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


def test_nothing_is_a_problem(client: PodResourcesClient) -> None:
    """Our decoder has no complaint."""
    client.list()
    client.allocatable()
    assert client.problems == ()


def test_pods_that_hold_nothing_are_listed(client: PodResourcesClient) -> None:
    """List is of all active pods."""
    pods = client.list()
    assert list(pods) == sorted(pods, key=lambda one: (one.namespace, one.name))
    assert len(cpus_held(pods)) >= 2
    assert any(not cpus_held((one,)) for one in pods)


def test_cpus_are_exclusive(client: PodResourcesClient) -> None:
    """No CPU is held twice, and all that are held are allocatable."""
    held = cpus_held(client.list())
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(held, 2))
    assert CpuSet.union(held) <= client.allocatable().cpus


def test_memory_is_allocatable_by_zone(client: PodResourcesClient) -> None:
    """Each block lies in zones that have memory of its type, and is no greater than what they have together."""
    allocatable = {(block.type, block.zones[0]): block.size for block in client.allocatable().memory}
    assert allocatable
    for block in (block for one in client.list() for container in one.containers for block in container.memory):
        assert block.size <= sum(allocatable[block.type, zone] for zone in block.zones)


def test_devices_that_are_held_are_allocatable(client: PodResourcesClient) -> None:
    """With the same zones: healthy devices are told alike by both methods."""
    known = {(some.resource, device): some.zones for some in client.allocatable().devices for device in some.ids}
    for some in (some for one in client.list() for container in one.containers for some in container.devices):
        assert all(known[some.resource, device] == some.zones for device in some.ids)


def test_as_many_calls_as_we_allow_ourselves(client: PodResourcesClient) -> None:
    """Our own limit keeps us below the kubelet's: none is refused."""
    pods = client.list()
    assert all(client.list() == pods for _ in range(BURST + 20))


def test_a_restart(node: Node, client: PodResourcesClient) -> None:
    """The socket is created anew and the next call succeeds; soon pods hold what they held.

    Not at once: a real kubelet answers before it has heard of its pods.
    """
    before = cpus_held(client.list())
    node.restart()
    client.list()
    eventually(lambda: cpus_held(client.list()) == before)
