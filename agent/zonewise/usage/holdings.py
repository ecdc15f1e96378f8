"""The holdings of each pod: CPUs, memory and devices that become available once the pod has ended.

At the next admission after a pod's end the kubelet drops all of the pod's resources (removeStaleState of
pkg/kubelet/cm/cpumanager and memorymanager). These include leftovers of its init containers, which therefore count as
the pod's.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from zonewise.usage.allocations import recorded_devices
from zonewise.usage.device_usage import device_zones
from zonewise.usage.policies import is_memory_manager_static
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import UNATTRIBUTED, Holdings, holdings_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zonewise.kubelet.types import KubeletReport, MemoryBlock, PodResources
    from zonewise.usage.pod_matching import PodMatching

PodHoldings = tuple[tuple[str, Holdings], ...]
"""Holdings by the key of the pod, sorted; pods that hold nothing are left out."""


def pod_holdings(
    report: KubeletReport,
    matching: PodMatching,
    zone_cpus: dict[int, CpuSet],
    usable_cpus: CpuSet,
    excluded: Callable[[PodResources], bool],
) -> PodHoldings:
    """Return the holdings of each pod.

    `zone_cpus` contains the machine's zones, `usable_cpus` the allocatable CPUs. A CPU that is not allocatable and a
    device that is not healthy are left out: the end of their pod makes neither available. The memory of excluded pods,
    and of init containers without a listed pod, belongs to no pod, but it keeps zones assigned.
    """
    owned = _PodSources(report, matching, frozenset(zone_cpus))
    entries: list[tuple[str, Holdings]] = []
    unattributed: set[tuple[str, int, int]] = set()
    for pod in report.pods:
        uid = owned.uid(pod)
        memory = owned.memory(pod, uid)
        if excluded(pod):
            unattributed.update((resource, zones, 0) for resource, zones in memory)
            continue
        cpus = owned.cpus(pod, uid) & usable_cpus
        amounts = (*((*key, size) for key, size in memory.items()), *owned.devices(pod, uid))
        if cpus or amounts:
            entries.append((holdings_key(pod.namespace, pod.name), Holdings(cpus.bits, tuple(sorted(amounts)))))
    for uid in matching.alive - matching.pods.keys():
        unattributed.update((resource, zones, 0) for resource, zones in owned.recorded_memory(uid))
    if unattributed:
        entries.append((UNATTRIBUTED, Holdings(0, tuple(sorted(unattributed)))))
    return tuple(sorted(entries))


class _PodSources:
    """The List and the checkpoints, by pod. Checkpoint entries take precedence over List, which lacks init
    containers.
    """

    def __init__(self, report: KubeletReport, matching: PodMatching, known_zones: frozenset[int]) -> None:
        self._state = report.state
        self._zones = known_zones
        self._uids = {id(pod): uid for uid, pod in matching.pods.items()}
        self._has_memory = is_memory_manager_static(report)
        self._healthy = device_zones(report.allocatable.devices)
        self._recorded_devices = recorded_devices(report.state)

    def uid(self, pod: PodResources) -> str:
        """Return the UID of a listed pod; empty if no checkpoint contains the pod."""
        return self._uids.get(id(pod), "")

    def cpus(self, pod: PodResources, uid: str) -> CpuSet:
        recorded = self._state.cpu.entries.get(uid, {}) if self._state.cpu else {}
        return CpuSet.union((*(container.cpus for container in pod.containers), *recorded.values()))

    def memory(self, pod: PodResources, uid: str) -> dict[tuple[str, int], int]:
        """Return bytes by type and set of zones."""
        recorded = self.recorded_memory(uid)
        return recorded or self._sum(block for container in pod.containers for block in container.memory)

    def recorded_memory(self, uid: str) -> dict[tuple[str, int], int]:
        entries = self._state.memory.entries if self._state.memory else {}
        return self._sum(block for blocks in entries.get(uid, {}).values() for block in blocks)

    def devices(self, pod: PodResources, uid: str) -> Iterator[tuple[str, int, int]]:
        """Yield (resource, zones, count) for the healthy devices."""
        listed = (
            (devices.resource, device_id)
            for container in pod.containers
            for devices in container.devices
            for device_id in devices.ids
        )
        counts: dict[tuple[str, int], int] = defaultdict(int)
        for device in {*listed, *self._recorded_devices.get(uid, ())}:
            if device in self._healthy:
                counts[device[0], self._bits(self._healthy[device])] += 1
        yield from ((resource, zones, count) for (resource, zones), count in counts.items())

    def _sum(self, blocks: Iterable[MemoryBlock]) -> dict[tuple[str, int], int]:
        sizes: dict[tuple[str, int], int] = defaultdict(int)
        for block in blocks if self._has_memory else ():
            if zones := self._bits(block.zones):
                sizes[block.type, zones] += max(0, block.size)
        return sizes

    def _bits(self, zones: Iterable[int]) -> int:
        return sum(1 << zone for zone in set(zones) & self._zones)
