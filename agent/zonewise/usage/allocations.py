"""The resources allocated to several pods, including leftovers of their init containers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zonewise.kubelet.types import ClaimedDevice, MemoryBlock, PodResources, StateFiles
    from zonewise.usage.pod_matching import PodMatching

DeviceId = tuple[str, str]
"""Pair of resource and id."""


class Allocations(NamedTuple):
    """Allocated resources."""

    cpus: CpuSet = EMPTY
    blocks: tuple[MemoryBlock, ...] = ()
    devices: frozenset[DeviceId] = frozenset()
    claimed: frozenset[ClaimedDevice] = frozenset()


def pod_allocations(
    pods: Iterable[PodResources], owners: PodMatching, state: StateFiles, is_selected: Callable[[PodResources], bool]
) -> Allocations:
    """Return the resources allocated to the pods for which the predicate is true."""
    selected = [pod for pod in pods if is_selected(pod)]
    uids = {uid for uid, pod in owners.pods.items() if is_selected(pod)}
    containers = [container for pod in selected for container in pod.containers]
    listed = (
        (devices.resource, device_id)
        for container in containers
        for devices in container.devices
        for device_id in devices.ids
    )
    return Allocations(
        CpuSet.union(chain((container.cpus for container in containers), _checkpointed_cpus(state, uids))),
        tuple(_blocks(selected, uids, tuple(pod for pod in owners.unrecorded if is_selected(pod)), state)),
        frozenset(chain(listed, checkpointed_devices(state, uids))),
        frozenset(device for container in containers for device in container.claimed),
    )


def memory_blocks(pods: Iterable[PodResources]) -> Iterator[MemoryBlock]:
    """Yield the memory blocks of pods in List."""
    for pod in pods:
        for container in pod.containers:
            yield from container.memory


def recorded_devices(state: StateFiles) -> dict[str, set[DeviceId]]:
    """Return the devices in the checkpoint, by the UID of the pod."""
    devices: dict[str, set[DeviceId]] = {}
    for entry in state.devices.entries if state.devices else ():
        ids = (device_id for zone_ids in entry.ids_by_zone.values() for device_id in zone_ids)
        devices.setdefault(entry.uid, set()).update((entry.resource, device_id) for device_id in ids)
    return devices


def checkpointed_devices(state: StateFiles, uids: Iterable[str]) -> Iterator[DeviceId]:
    """Yield the devices in the checkpoint that belong to pods with the given UIDs."""
    devices = recorded_devices(state)
    return chain.from_iterable(devices.get(uid, ()) for uid in set(uids))


def _checkpointed_cpus(state: StateFiles, uids: Iterable[str]) -> Iterator[CpuSet]:
    for uid in uids:
        yield from (state.cpu.entries.get(uid, {}) if state.cpu else {}).values()


def _blocks(
    pods: Iterable[PodResources], uids: Iterable[str], unrecorded: Iterable[PodResources], state: StateFiles
) -> Iterator[MemoryBlock]:
    """Yield the blocks in the checkpoint, and the listed blocks of pods that are not in it."""
    if state.memory is None:
        yield from memory_blocks(pods)
        return
    for uid in uids:
        for blocks in state.memory.entries.get(uid, {}).values():
            yield from blocks
    yield from memory_blocks(unrecorded)
