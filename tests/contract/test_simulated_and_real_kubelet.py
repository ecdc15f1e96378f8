"""The simulated kubelet allocates the same amounts of each zone to the same pods as a real one."""

from __future__ import annotations

import contextlib
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.e2e.hardware import PAGES
from support.e2e.kubelet import NODE, skip_reason
from support.e2e.node import running_node
from support.e2e.plugin import Device
from support.e2e.pods import GPU, container, pod
from support.e2e.published import observing
from support.e2e.settings import Settings
from support.trees import GIB
from zonewise.kubelet.podresources.client import PodResourcesClient
from zonewise.kubelet.state import StateReader
from zonewise.kubelet.types import KubeletReport
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_sandbox.kubelet import (
    ContainerSpec,
    DoesNotFit,
    PodSpec,
    SimulatedDevice,
    SimulatedKubelet,
    SimulatedZone,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.hardware import Hardware
    from support.e2e.pods import Object
    from support.e2e.published import Observer

pytestmark = pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))

DEVICES = (Device("a", (0,)), Device("b", (1,)), Device("none"))
"""All devices differ in their zones, since a kubelet picks at random between equal ones."""

SINGLE = Settings(topology="single-numa-node")


class Want(NamedTuple):
    """The requests of a container."""

    milli: int
    memory: int = GIB
    gpus: int = 0


PODS: dict[str, tuple[Want, ...]] = {
    "whole": (Want(4000),),
    "fraction": (Want(1500),),
    "two": (Want(3000), Want(2000, 2 * GIB)),
    "gpu": (Want(1000, gpus=1),),
    "most": (Want(14000, 200 * GIB),),
    "impossible": (Want(60000),),
    "again": (Want(2000),),
}


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("topology", ["restricted", "single-numa-node"])
def test_same_amounts(topology: str, scope: str) -> None:
    """After each pod, both have the same available amounts, and both reject the same pods."""
    with running_node(Settings(topology=topology, scope=scope)) as node, observing(node) as observer:
        node.plug(GPU, DEVICES)
        with simulated(node.hardware, observer) as (kubelet, client):
            for name, wants in PODS.items():
                status = node.offer(pod(name, *(real(index, want) for index, want in enumerate(wants))))
                assert starts(kubelet, name, wants) == (status["phase"] == "Running"), name
                assert left(usage_of(kubelet, client, observer)) == left(observer.usage()), name


def test_files_keep_stopped_pods_until_the_next_admission() -> None:
    """No reconcile period ends during the test. Even a rejected pod clears the CPUs and memory of stopped pods."""
    wants = {"stops": (Want(2000, gpus=1),), "rejected": (Want(20000),), "again": (Want(3000, gpus=1),)}
    with running_node(SINGLE._replace(reconcile="10h")) as node, observing(node) as observer:
        node.plug(GPU, DEVICES)
        with simulated(node.hardware, observer) as (kubelet, _):
            for name, requests in wants.items():
                status = node.offer(pod(name, *(real(index, want) for index, want in enumerate(requests))))
                started = starts(kubelet, name, requests)
                assert started == (status["phase"] == "Running")
                assert entries(kubelet.directory) == entries(node.kubelet.directory), name
                if started:
                    node.end(name)
                    kubelet.stop(f"uid-of-{name}")
                    assert entries(kubelet.directory) == entries(node.kubelet.directory) == (1, 1), name


def test_the_reconcile_period_clears_only_cpus() -> None:
    with (
        running_node(SINGLE._replace(reconcile="1s")) as node,
        observing(node) as observer,
        simulated(node.hardware, observer, reconcile_period=1.0) as (kubelet, _),
    ):
        node.run(pod("stops", real(0, Want(2000))))
        assert starts(kubelet, "stops", (Want(2000),))
        node.end("stops")
        kubelet.stop("uid-of-stops")
        for directory in (node.kubelet.directory, kubelet.directory):
            node.kubelet.until(lambda root=directory: entries(root)[0] == 0, "reconciliation")
            assert entries(directory) == (0, 1)


def entries(directory: Path) -> tuple[int, int]:
    """Return the numbers of pods in cpu_manager_state and memory_manager_state."""
    files = StateReader(str(directory)).read().files
    assert files.cpu is not None
    assert files.memory is not None
    return len(files.cpu.entries), len(files.memory.entries)


@contextlib.contextmanager
def simulated(
    hardware: Hardware, observer: Observer, *, reconcile_period: float = math.inf
) -> Generator[tuple[SimulatedKubelet, PodResourcesClient]]:
    """Run a simulated kubelet on the same hardware, with the same configuration and devices."""
    zones = [
        SimulatedZone(zone, hardware.cpus(zone), {"memory": memory, **bytes_of(pages)})
        for zone, memory, pages in zip(hardware.ids, hardware.memory, hardware.hugepages, strict=True)
    ]
    devices = [SimulatedDevice(GPU, device.id, device.zones or ()) for device in DEVICES]
    with (
        tempfile.TemporaryDirectory() as directory,
        SimulatedKubelet(
            Path(directory), zones, observer.config, devices=devices, reconcile_period=reconcile_period
        ) as kubelet,
        contextlib.closing(PodResourcesClient(str(kubelet.socket))) as client,
    ):
        yield kubelet, client


def bytes_of(pages: dict[str, int]) -> dict[str, int]:
    return {name: PAGES[name] * count for name, count in pages.items()}


def real(index: int, want: Want) -> Object:
    devices = {"gpu": str(want.gpus)} if want.gpus else {}
    return container(f"c{index}", cpu=f"{want.milli}m", memory=str(want.memory), **devices)


def starts(kubelet: SimulatedKubelet, name: str, wants: tuple[Want, ...]) -> bool:
    """Start a pod on the simulated kubelet; return whether it fits."""
    containers = tuple(
        ContainerSpec(f"c{index}", want.milli, {"memory": want.memory}, {GPU: want.gpus} if want.gpus else {})
        for index, want in enumerate(wants)
    )
    try:
        kubelet.start(PodSpec("lab", f"{name}-{NODE}", containers, f"uid-of-{name}"))
    except DoesNotFit:
        return False
    return True


def usage_of(kubelet: SimulatedKubelet, client: PodResourcesClient, observer: Observer) -> Usage:
    """Return the usage of the simulated kubelet."""
    files = StateReader(str(kubelet.directory)).read().files
    usage = node_usage(observer.machine, KubeletReport(client.list(), client.allocatable(), observer.config, files))
    assert isinstance(usage, Usage)
    return usage


def left(usage: Usage) -> object:
    """Return everything except CPU ids: a pod may get any CPUs within a zone."""
    zones = [(zone.zone, zone.amounts, zone.memory_group) for zone in usage.zones]
    return zones, usage.unzoned, usage.fingerprint_all, usage.fingerprint_exclusive, usage.problems
