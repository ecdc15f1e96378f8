"""Simulated kubelets on short paths, their pods, and random responses of a kubelet."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from zonewise.kubelet.pods.v1alpha1 import pods_pb2
from zonewise.kubelet.types import (
    Allocatable,
    ClaimedDevice,
    ContainerDevices,
    ContainerResources,
    MemoryBlock,
    PodResources,
)
from zonewise_common.k8s.cpuset import MAX_CPUS, CpuSet
from zonewise_sandbox.kubelet import (
    STATIC,
    ContainerSpec,
    Faults,
    PodSpec,
    SimulatedDevice,
    SimulatedKubelet,
    even_zones,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from zonewise.kubelet.types import KubeletConfig

GIB = 1 << 30
GPU = "nvidia.com/gpu"

NO_FAULTS = Faults()

# --- simulated nodes


@contextlib.contextmanager
def short_directory() -> Generator[Path]:
    """Yield a directory with a path short enough for the name of a socket: the limit is 107 bytes in total."""
    with tempfile.TemporaryDirectory(prefix="zw-") as directory:
        yield Path(directory)


@contextlib.contextmanager
def simulated(
    faults: Faults = NO_FAULTS,
    config: KubeletConfig = STATIC,
    *,
    pods_api: bool = False,
) -> Generator[SimulatedKubelet]:
    """Yield a node of two zones with 16 CPUs, 64 GiB and four GPUs each; CPU 0 is reserved."""
    gpus = [SimulatedDevice(GPU, f"gpu-{number}", (number // 4,)) for number in range(8)]
    with (
        short_directory() as directory,
        SimulatedKubelet(
            directory, even_zones(2, 8), config, devices=gpus, faults=faults, pods_api=pods_api
        ) as kubelet,
    ):
        yield kubelet


def pod(name: str, cpus: int = 0, *, memory: int = 0, gpus: int = 0, guaranteed: bool = True) -> PodSpec:
    """Return a pod of one container."""
    container = ContainerSpec("main", 1000 * cpus, {"memory": memory} if memory else {}, {GPU: gpus} if gpus else {})
    return PodSpec("lab", name, (container,), f"uid-{name}", guaranteed, {"app": name})


def decode_pod_event(event: bytes) -> tuple[str, str]:
    """Return the type of a WatchPodsEvent and the name of its pod."""
    message = pods_pb2.WatchPodsEvent.FromString(event)
    return pods_pb2.EventType.Name(message.type), pods_pb2.Pod.FromString(message.pod).metadata.name


# --- random responses, in the order of decoding

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)
ZONES = st.frozensets(st.integers(0, 15), max_size=3).map(lambda zones: tuple(sorted(zones)))
CPUS = st.frozensets(st.integers(0, MAX_CPUS - 1) | st.integers(0, 63), max_size=12).map(CpuSet)


@st.composite
def some_devices(draw: st.DrawFn) -> tuple[ContainerDevices, ...]:
    """Draw devices of a few resources, each device once."""
    zones_by_device = draw(st.dictionaries(st.tuples(NAMES, NAMES), ZONES, max_size=8))
    alike: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (resource, device), zones in zones_by_device.items():
        alike.setdefault((resource, zones), []).append(device)
    return tuple(
        ContainerDevices(resource, tuple(sorted(ids)), zones) for (resource, zones), ids in sorted(alike.items())
    )


def some_memory() -> st.SearchStrategy[tuple[MemoryBlock, ...]]:
    blocks = st.builds(MemoryBlock, NAMES, st.integers(0, 2**64 - 1), ZONES)
    return st.lists(blocks, max_size=4).map(lambda some: tuple(sorted(some, key=lambda b: (b.type, b.zones, b.size))))


@st.composite
def some_claims(draw: st.DrawFn) -> tuple[ClaimedDevice, ...]:
    claim = st.tuples(NAMES, NAMES).map("/".join)
    share = st.none() | st.text(st.characters(codec="utf-8"), max_size=3)
    claims = draw(st.frozensets(st.builds(ClaimedDevice, NAMES, NAMES, NAMES, claim, share), max_size=4))
    return tuple(sorted(claims, key=lambda one: (*one[:4], one.share is not None, one.share or "")))


CONTAINERS = st.builds(ContainerResources, NAMES, CPUS, some_devices(), some_memory(), some_claims())
PODS = st.lists(
    st.builds(PodResources, NAMES, NAMES, st.lists(CONTAINERS, max_size=3).map(tuple)),
    max_size=4,
    unique_by=lambda one: one[:2],
).map(lambda pods: tuple(sorted(pods, key=lambda one: one[:2])))
ALLOCATABLES = st.builds(Allocatable, CPUS, some_devices(), some_memory())
