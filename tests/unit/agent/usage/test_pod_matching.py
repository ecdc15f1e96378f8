"""Which UID of the checkpoints belongs to which listed pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import GIB, NodeHistory, node_histories
from zonewise.kubelet.types import (
    ContainerDevices,
    ContainerResources,
    CpuManagerState,
    DeviceCheckpoint,
    MemoryBlock,
    MemoryManagerState,
    PodDevicesEntry,
    PodResources,
    StateFiles,
)
from zonewise.usage.pod_matching import PodMatching, match_pods
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from random import Random


def block(gib: int, *zones: int) -> tuple[MemoryBlock, ...]:
    return (MemoryBlock("memory", gib * GIB, zones or (0,)),)


def pod(name: str, **containers: tuple[MemoryBlock, ...]) -> PodResources:
    return PodResources(
        "ns", name, tuple(ContainerResources(container, memory=blocks) for container, blocks in containers.items())
    )


def memory(**entries: dict[str, tuple[MemoryBlock, ...]]) -> StateFiles:
    return StateFiles(memory=MemoryManagerState("Static", {}, entries))


def test_a_pod_is_recognised_by_the_resources_of_its_containers() -> None:
    """Of two UIDs, the one with the same blocks under the same names is the pod; the other is stale."""
    listed = pod("a", c=block(1), d=block(2))
    state = memory(one={"c": block(2), "d": block(1)}, two={"c": block(1), "d": block(2)})
    assert match_pods([listed], state) == PodMatching({"two": listed}, (), frozenset({"two"}), frozenset({"one"}))


def test_other_entries_of_a_uid_belong_to_init_containers() -> None:
    """A container that List omits does not make it another pod."""
    listed = pod("a", c=block(1))
    assert match_pods([listed], memory(one={"c": block(1), "init": block(3)})).pods == {"one": listed}


def test_a_listed_container_without_memory_does_not_match_one_with_memory() -> None:
    """A UID with memory under a name that List has without memory belongs to another pod."""
    listed = pod("a", c=block(1), d=())
    assert match_pods([listed], memory(one={"c": block(1), "d": block(1)})) == PodMatching(
        {}, (listed,), frozenset(), frozenset({"one"})
    )


def test_a_pod_with_a_container_that_the_files_lack_matches_no_uid() -> None:
    """The pod is charged for as a whole: if the UID counted, the memory of the second container would seem free."""
    listed = pod("a", c=block(1), d=block(2))
    assert match_pods([listed], memory(one={"c": block(1)})) == PodMatching(
        {}, (listed,), frozenset(), frozenset({"one"})
    )


def test_the_order_of_zones_and_empty_blocks_do_not_matter() -> None:
    """The API sorts zones in any order, and a block without remaining memory is still in the file."""
    listed = pod("a", c=(MemoryBlock("memory", GIB, (1, 0)),))
    used_up = {"c": (*block(1, 0, 1), MemoryBlock("hugepages-2Mi", 0, (0,))), "init": (MemoryBlock("memory", 0, (0,)),)}
    assert match_pods([listed], memory(one=used_up)).pods == {"one": listed}


def test_of_equal_uids_the_one_that_holds_most_is_alive() -> None:
    """If init containers make the difference, the available amount is too low rather than too high."""
    listed = pod("a", c=block(1))
    state = memory(one={"c": block(1)}, two={"c": block(1), "init": block(10)}, three={"c": block(1), "init": block(9)})
    assert match_pods([listed], state).pods == {"two": listed}


def test_uids_are_reassigned() -> None:
    """A UID that fits two pods is assigned to the one that no other UID fits, although it comes first."""
    short, long = pod("a", c=block(1)), pod("b", d=block(2))
    state = memory(both={"c": block(1), "d": block(2)}, only_short={"c": block(1)})
    assert match_pods([short, long], state).pods == {"both": long, "only_short": short}


def test_cpus_and_devices_distinguish_pods() -> None:
    """CPUs and ids of devices distinguish pods with equal memory."""
    first = PodResources(
        "ns", "a", (ContainerResources("c", CpuSet((1,)), (ContainerDevices("r", ("x",)),), block(1)),)
    )
    second = PodResources(
        "ns", "b", (ContainerResources("c", CpuSet((2,)), (ContainerDevices("r", ("y",)),), block(1)),)
    )
    equal = {"u": {"c": block(1)}, "v": {"c": block(1)}}
    cpus = CpuManagerState("static", EMPTY, {"u": {"c": CpuSet((2,))}, "v": {"c": CpuSet((1,))}})
    devices = DeviceCheckpoint(
        (PodDevicesEntry("u", "c", "r", {0: ("y",)}), PodDevicesEntry("v", "c", "r", {-1: ("x",)})), {}
    )
    state = StateFiles(cpus, MemoryManagerState("Static", {}, equal), devices)
    assert match_pods([first, second], state) == PodMatching({"u": second, "v": first}, (), frozenset({"u", "v"}))


def test_kinds_without_a_file_are_not_compared() -> None:
    """If the CPU Manager's file is unreadable, memory alone decides."""
    listed = PodResources("ns", "a", (ContainerResources("c", CpuSet((1,)), (), block(1)),))
    assert match_pods([listed], memory(one={"c": block(1)})).pods == {"one": listed}


def test_pods_without_allocations_match_no_uid() -> None:
    """They are not in the checkpoints, so no UID is missing."""
    assert match_pods([pod("a", c=()), PodResources("ns", "b")], memory(one={"init": block(1)})) == PodMatching(
        {}, (), frozenset(), frozenset({"one"})
    )


def test_hundreds_of_equal_uids() -> None:
    """Many replicas of one pod, some of them deleted, are matched as well."""
    replicas = [pod(f"p{number}", c=block(1)) for number in range(200)]
    state = memory(**{f"u{number}": {"c": block(1)} for number in range(300)})
    owners = match_pods(replicas, state)
    assert len(owners.pods) == 200
    assert owners.unrecorded == ()


# --- with known cgroups

ONLY_INIT = {"init": block(2)}


def test_entries_of_init_containers_remain_while_the_pod_has_a_cgroup() -> None:
    """A UID that could be an idle pod is alive with a cgroup, and stale without one or if cgroups are unknown."""
    listed, unlisted = pod("a", c=()), pod("b", c=block(1))
    state = memory(one=ONLY_INIT, two=ONLY_INIT, three={"c": block(1)})
    owners = match_pods([listed, unlisted], state, frozenset({"one", "three"}))
    assert owners == PodMatching({"three": unlisted}, (), frozenset({"one", "three"}))
    assert match_pods([listed, unlisted], state).alive == {"three"}


def test_a_uid_with_a_cgroup_is_preferred() -> None:
    """Of equal UIDs, the one with a cgroup is alive, even if another holds more."""
    listed, state = pod("a", c=block(1)), memory(one={"c": block(1)}, two={"c": block(1), "init": block(3)})
    owners = match_pods([listed], state, frozenset({"one"}))
    assert (owners.pods, owners.alive, owners.unlisted) == ({"one": listed}, {"one"}, set())


def test_a_uid_with_a_cgroup_that_no_listed_pod_could_be() -> None:
    """Its containers have ended, or List lacks the pod: the UID is unlisted, and its entries count as released."""
    state = memory(one={"c": block(1)}, two={"c": block(2)})
    owners = match_pods([pod("a", c=block(1)), pod("b", c=())], state, frozenset({"one", "two", "idle"}))
    assert (owners.alive, owners.unlisted) == ({"one"}, {"two"})


def test_more_equal_uids_have_a_cgroup_than_are_listed() -> None:
    """As many UIDs are assigned as there are free idle pods."""
    owners = match_pods(
        [pod("a", c=block(1))], memory(one={"c": block(1)}, two={"c": block(1)}), frozenset({"one", "two"})
    )
    assert len(owners.alive) == len(owners.unlisted) == 1


@given(node_histories())
def test_with_cgroups_all_held_resources_are_known(history: NodeHistory) -> None:
    """All entries of a running pod count, and none of a deleted pod, whatever the names of its containers."""
    report = history.report()
    active = frozenset(record.uid for record in history.records if record.alive)
    owners = match_pods(report.pods, report.state, active)
    holding = {record.uid for record in history.records if any(any(held[1:]) for held in record.containers)}
    assert owners.alive == active & holding
    assert owners.unlisted == frozenset()
    assert owners.unrecorded == ()


@given(node_histories(), st.sets(st.integers(0, 6)))
def test_every_uid_that_list_lacks_is_reported(history: NodeHistory, lacking: set[int]) -> None:
    """A UID with a cgroup is unlisted unless it can be a listed pod; no more UIDs are matched than there are pods."""
    report = history.report()
    active = frozenset(record.uid for record in history.records if record.alive)
    pods = tuple(listed for number, listed in enumerate(report.pods) if number not in lacking)
    owners = match_pods(pods, report.state, active)
    holding = {
        record.uid for record in history.records if record.alive and any(any(held[1:]) for held in record.containers)
    }
    assert owners.unlisted == holding - owners.alive
    assert len(holding) - len(owners.unlisted) <= len(pods)


@given(node_histories())
def test_every_listed_pod_has_a_uid_that_fits(history: NodeHistory) -> None:
    """Each running pod with resources gets its own UID, and its containers are among those of the UID."""
    owners = match_pods(history.report().pods, history.report().state)
    holding = [
        record.pod
        for record in history.records
        if record.alive and any(any(held[1:]) for held in record.pod.containers)
    ]
    assert sorted(one.name for one in owners.pods.values()) == sorted(one.name for one in holding)
    assert owners.unrecorded == ()
    records = {record.uid: record for record in history.records}
    for uid, listed in owners.pods.items():
        held = {container.name: container.memory for container in records[uid].containers}
        assert all(held.get(one.name, ()) == one.memory for one in listed.containers)


@given(node_histories(), st.randoms())
def test_the_order_does_not_matter(history: NodeHistory, random: Random) -> None:
    """For any order of pods and entries, the same UIDs are alive."""
    report = history.report()
    assert report.state.memory is not None
    pods = list(report.pods)
    uids = list(report.state.memory.entries)
    random.shuffle(pods)
    random.shuffle(uids)
    entries = {uid: report.state.memory.entries[uid] for uid in uids}
    shuffled = report.state._replace(memory=report.state.memory._replace(entries=entries))
    first, second = match_pods(report.pods, report.state), match_pods(pods, shuffled)
    results = [
        sorted(repr(sorted(pair for pair in entries[uid].items() if pair[1])) for uid in matching.pods)
        for matching in (first, second)
    ]
    assert results[0] == results[1]
    assert sorted(first.unrecorded) == sorted(second.unrecorded)
