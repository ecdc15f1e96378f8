"""What some pods hold together, what of their init containers is left over included."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from zonewise.topology.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zonewise.kubelet.model import ClaimedDevice, MemoryBlock, Pod, StateFiles
    from zonewise.usage.owners import Owners

DeviceId = tuple[str, str]
"""Resource and id."""


class Holdings(NamedTuple):
    """What is held."""

    cpus: CpuSet = EMPTY
    blocks: tuple[MemoryBlock, ...] = ()
    devices: frozenset[DeviceId] = frozenset()
    claimed: frozenset[ClaimedDevice] = frozenset()


def holdings(pods: Iterable[Pod], owners: Owners, state: StateFiles, which: Callable[[Pod], bool]) -> Holdings:
    """Return what those of the pods hold of which the function is true."""
    chosen = [pod for pod in pods if which(pod)]
    uids = {uid for uid, pod in owners.pods.items() if which(pod)}
    containers = [container for pod in chosen for container in pod.containers]
    listed = (
        (devices.resource, one) for container in containers for devices in container.devices for one in devices.ids
    )
    return Holdings(
        CpuSet.union(chain((container.cpus for container in containers), _recorded_cpus(state, uids))),
        tuple(_blocks(chosen, uids, tuple(pod for pod in owners.unrecorded if which(pod)), state)),
        frozenset(chain(listed, recorded_devices(state, uids))),
        frozenset(device for container in containers for device in container.claimed),
    )


def blocks_of(pods: Iterable[Pod]) -> Iterator[MemoryBlock]:
    """Yield the memory blocks that List tells of pods."""
    for pod in pods:
        for container in pod.containers:
            yield from container.memory


def recorded_devices(state: StateFiles, uids: Iterable[str]) -> Iterator[DeviceId]:
    """Yield the devices that the checkpoint has for pods of the given UIDs."""
    known = set(uids)
    for entry in state.devices.entries if state.devices else ():
        if entry.uid in known:
            yield from ((entry.resource, one) for of_zone in entry.ids_by_zone.values() for one in of_zone)


def _recorded_cpus(state: StateFiles, uids: Iterable[str]) -> Iterator[CpuSet]:
    for uid in uids:
        yield from (state.cpu.entries.get(uid, {}) if state.cpu else {}).values()


def _blocks(
    chosen: Iterable[Pod], uids: Iterable[str], unrecorded: Iterable[Pod], state: StateFiles
) -> Iterator[MemoryBlock]:
    """Yield the blocks of the checkpoint, and those listed of pods that it does not have."""
    if state.memory is None:
        yield from blocks_of(chosen)
        return
    for uid in uids:
        for blocks in state.memory.entries.get(uid, {}).values():
            yield from blocks
    yield from blocks_of(unrecorded)
