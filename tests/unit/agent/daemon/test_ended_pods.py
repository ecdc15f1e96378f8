"""Which UIDs in the checkpoints belong to pods that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import NodeHistory, node_histories
from zonewise.daemon.ended_pods import EndedPods
from zonewise.kubelet.types import (
    ContainerDevices,
    ContainerResources,
    CpuManagerState,
    DeviceCheckpoint,
    MemoryManagerState,
    PodDevicesEntry,
    PodResources,
    StateFiles,
)
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from zonewise.kubelet.types import DeviceCheckpoint as Checkpoint

IDLE = PodResources("ns", "idle", (ContainerResources("c"),))
NO_PODS = frozenset[str]()


def with_cpu(name: str, *held: int) -> PodResources:
    return PodResources("ns", name, (ContainerResources("c", CpuSet(held)),))


def with_device(name: str, device_id: str) -> PodResources:
    return PodResources("ns", name, (ContainerResources("c", EMPTY, (ContainerDevices("r", (device_id,)),)),))


def cpu_files(**entries: tuple[int, ...]) -> StateFiles:
    return StateFiles(CpuManagerState("static", EMPTY, {uid: {"c": CpuSet(held)} for uid, held in entries.items()}))


def device_checkpoint(**ids: str) -> Checkpoint:
    return DeviceCheckpoint(tuple(PodDevicesEntry(uid, "c", "r", {0: (one,)}) for uid, one in ids.items()), {})


def test_a_pod_with_a_cpu_that_is_no_longer_listed() -> None:
    """The checkpoint entry of such a pod is stale; entries that were never listed are not."""
    seen, files = EndedPods(), cpu_files(a=(1, 2), b=(3,), never=(4,))
    assert seen.observe([with_cpu("a", 1, 2), with_cpu("b", 3)], files, None) == NO_PODS
    assert seen.observe([with_cpu("b", 3), IDLE], files, None) == {"a"}
    assert seen.observe([IDLE], files, None) == {"a", "b"}


def test_a_pod_with_a_device_that_is_no_longer_listed() -> None:
    """The id of a device, too, belongs to only one pod."""
    seen, files = EndedPods(), StateFiles(devices=device_checkpoint(a="x", b="y"))
    assert seen.observe([with_device("a", "x"), with_device("b", "y")], files, None) == NO_PODS
    assert seen.observe([with_device("b", "y")], files, None) == {"a"}


def test_a_new_pod_with_the_old_name_and_another_uid() -> None:
    """The successor of a pod has other CPUs, since its predecessor's are recorded under the old UID."""
    seen = EndedPods()
    assert seen.observe([with_cpu("web-0", 1)], cpu_files(old=(1,)), None) == NO_PODS
    assert seen.observe([with_cpu("web-0", 2)], cpu_files(old=(1,), new=(2,)), None) == {"old"}


def test_a_pod_that_is_no_longer_in_any_file_is_forgotten() -> None:
    """If its UID appears again after the release, the pod counts as new."""
    seen = EndedPods()
    seen.observe([with_cpu("a", 1)], cpu_files(a=(1,)), None)
    assert seen.observe([IDLE], cpu_files(), None) == NO_PODS
    assert seen.observe([IDLE], cpu_files(a=(1,)), None) == NO_PODS


def test_a_file_that_cannot_be_read_proves_nothing() -> None:
    """The history of a pod survives a temporarily damaged file with its CPUs."""
    memory = MemoryManagerState("Static", {}, {"a": {"c": ()}})
    seen, files = EndedPods(), cpu_files(a=(1,))._replace(memory=memory)
    assert seen.observe([with_cpu("a", 1)], files, None) == NO_PODS
    assert seen.observe([with_cpu("a", 1)], files._replace(cpu=None), None) == NO_PODS
    assert seen.observe([IDLE], files, None) == {"a"}


def test_a_pod_that_lost_its_cgroup() -> None:
    """Entries of init containers alone are never listed, so the cgroup decides.

    A pod that never had a cgroup may get one.
    """
    seen, files = EndedPods(), cpu_files(a=(1,), b=(2,))
    assert seen.observe([IDLE], files, frozenset({"a"})) == NO_PODS
    assert seen.observe([IDLE], files, NO_PODS) == {"a"}
    assert seen.observe([IDLE], files, None) == NO_PODS
    assert seen.observe([IDLE], files, frozenset({"a"})) == NO_PODS


def test_a_listed_pod_without_a_cgroup_is_alive() -> None:
    """List takes precedence, since the view of the cgroups may be incomplete."""
    seen, files = EndedPods(), cpu_files(a=(1,))
    seen.observe([with_cpu("a", 1)], files, frozenset({"a"}))
    assert seen.observe([with_cpu("a", 1)], files, NO_PODS) == NO_PODS


def test_after_a_restart_cgroups_may_be_elsewhere() -> None:
    """A kubelet with another driver creates new cgroups; its pods have not ended."""
    seen, files = EndedPods(), cpu_files(a=(1,))
    seen.observe([IDLE], files, frozenset({"a"}))
    seen.note_restart()
    assert seen.observe([IDLE], files, NO_PODS) == NO_PODS


@given(node_histories(), st.data())
def test_no_listed_pod_has_ended(history: NodeHistory, data: st.DataObject) -> None:
    """However pods end: no running pod counts as ended, and every ended pod that was listed with a CPU does."""
    alive = {record.uid for record in history.records}
    seen = EndedPods()
    while alive:
        records = tuple(record._replace(alive=record.uid in alive, reconciled=False) for record in history.records)
        report = history._replace(records=records).report()
        ended = seen.observe(report.pods, report.state, data.draw(st.sampled_from([None, frozenset(alive)])))
        assert ended.isdisjoint(alive)
        visible = {record.uid for record in records if any(one.cpus or one.devices for one in record.pod.containers)}
        assert visible - alive <= ended
        alive.discard(data.draw(st.sampled_from(sorted(alive))))
