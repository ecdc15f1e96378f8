"""What some pods hold together, what of their init containers is left over included."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zonewise.kubelet.types import ClaimedDevice, MemoryBlock, PodResources, StateFiles
    from zonewise.usage.pod_matching import PodMatching

DeviceId = tuple[str, str]
"""Resource and id."""


class Allocations(NamedTuple):
    """What is held."""

    cpus: CpuSet = EMPTY
    blocks: tuple[MemoryBlock, ...] = ()
    devices: frozenset[DeviceId] = frozenset()
    claimed: frozenset[ClaimedDevice] = frozenset()


def pod_allocations(
    pods: Iterable[PodResources], owners: PodMatching, state: StateFiles, is_selected: Callable[[PodResources], bool]
) -> Allocations:
    """Return what those of the pods hold of which the function is true."""
    chosen = [pod for pod in pods if is_selected(pod)]
    uids = {uid for uid, pod in owners.pods.items() if is_selected(pod)}
    containers = [container for pod in chosen for container in pod.containers]
    listed = (
        (devices.resource, one) for container in containers for devices in container.devices for one in devices.ids
    )
    return Allocations(
        CpuSet.union(chain((container.cpus for container in containers), _recorded_cpus(state, uids))),
        tuple(_blocks(chosen, uids, tuple(pod for pod in owners.unrecorded if is_selected(pod)), state)),
        frozenset(chain(listed, checkpointed_devices(state, uids))),
        frozenset(device for container in containers for device in container.claimed),
    )


def memory_blocks(pods: Iterable[PodResources]) -> Iterator[MemoryBlock]:
    """Yield the memory blocks that List tells of pods."""
    for pod in pods:
        for container in pod.containers:
            yield from container.memory


def checkpointed_devices(state: StateFiles, uids: Iterable[str]) -> Iterator[DeviceId]:
    """Yield the devices that the checkpoint has for pods of the given UIDs."""
    known = set(uids)
    for entry in state.devices.entries if state.devices else ():
        if entry.uid in known:
            yield from ((entry.resource, one) for of_zone in entry.ids_by_zone.values() for one in of_zone)


def _recorded_cpus(state: StateFiles, uids: Iterable[str]) -> Iterator[CpuSet]:
    for uid in uids:
        yield from (state.cpu.entries.get(uid, {}) if state.cpu else {}).values()


def _blocks(
    chosen: Iterable[PodResources], uids: Iterable[str], unrecorded: Iterable[PodResources], state: StateFiles
) -> Iterator[MemoryBlock]:
    """Yield the blocks of the checkpoint, and those listed of pods that it does not have."""
    if state.memory is None:
        yield from memory_blocks(chosen)
        return
    for uid in uids:
        for blocks in state.memory.entries.get(uid, {}).values():
            yield from blocks
    yield from memory_blocks(unrecorded)
