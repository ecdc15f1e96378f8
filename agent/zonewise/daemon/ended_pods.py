"""Which pods in the kubelet's checkpoints have ended, judged by earlier observations of them.

Checkpoints keep the entries of ended pods, unmarked, until the next admission, and List has no UIDs. A single look
cannot always distinguish an ended pod from a listed one whose entries are those of init containers. Two observations
can:

1. A CPU or a device belongs to one pod. A UID that once shared one with List, and no longer shares any, has left List.
2. The kubelet removes a pod's cgroup after its last container (kubelet.go SyncTerminatedPod). A UID whose cgroup is
   gone has ended, unless it shares a CPU or a device with List.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.usage.allocations import recorded_devices
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.kubelet.types import PodResources, StateFiles
    from zonewise.usage.allocations import DeviceId


class EndedPods:
    """Earlier observations of the pods in the checkpoints. Not thread-safe."""

    def __init__(self) -> None:
        self._listed = frozenset[str]()
        self._with_cgroup = frozenset[str]()

    def note_restart(self) -> None:
        """Forget the cgroups: the kubelet may create other ones after a restart (cgroupDriver)."""
        self._with_cgroup = frozenset[str]()

    def observe(
        self, pods: Iterable[PodResources], state: StateFiles, cgroups: frozenset[str] | None
    ) -> frozenset[str]:
        """Return the UIDs in the checkpoints whose pods have ended.

        `cgroups` are the UIDs of pods that have a cgroup; None if that is not known.
        """
        recorded = frozenset(state.pod_uids())
        listed, unlisted = _listed_uids(_listed_resources(pods), _recorded_resources(state))
        ended = unlisted & self._listed
        if cgroups is not None:
            ended |= (recorded & self._with_cgroup) - cgroups - listed
        self._listed = (self._listed | listed) & recorded
        self._with_cgroup = (self._with_cgroup | (cgroups or frozenset())) & recorded
        return frozenset(ended)


class _Exclusive(NamedTuple):
    """Resources that belong to a single pod."""

    cpus: CpuSet
    devices: set[DeviceId]

    def isdisjoint(self, other: _Exclusive) -> bool:
        return self.cpus.isdisjoint(other.cpus) and self.devices.isdisjoint(other.devices)


def _listed_uids(listed: _Exclusive, recorded: dict[str, _Exclusive]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the UIDs with resources that List shows, and the UIDs with resources that List does not show."""
    shown = frozenset(uid for uid, resources in recorded.items() if not resources.isdisjoint(listed))
    return shown, frozenset(uid for uid, (cpus, devices) in recorded.items() if cpus or devices) - shown


def _listed_resources(pods: Iterable[PodResources]) -> _Exclusive:
    containers = [container for pod in pods for container in pod.containers]
    devices = {
        (group.resource, device_id)
        for container in containers
        for group in container.devices
        for device_id in group.ids
    }
    return _Exclusive(CpuSet.union(container.cpus for container in containers), devices)


def _recorded_resources(state: StateFiles) -> dict[str, _Exclusive]:
    """Return the CPUs and devices in the checkpoints, by UID."""
    entries = state.cpu.entries if state.cpu is not None else {}
    devices = recorded_devices(state)
    return {
        uid: _Exclusive(CpuSet.union(entries.get(uid, {}).values()), devices.get(uid, set()))
        for uid in entries.keys() | devices.keys()
    }
