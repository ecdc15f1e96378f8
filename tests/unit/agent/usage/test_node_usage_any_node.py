"""The usage of any node, after any history of pods, and with any garbage that a kubelet may report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.kubelet_reports import (
    CONFIG,
    DEVICE,
    GIB,
    RESERVED,
    TWO,
    NodeHistory,
    Record,
    compute_usage,
    make_node,
    node_histories,
)
from zonewise.kubelet.types import (
    Allocatable,
    ClaimedDevice,
    ContainerDevices,
    ContainerResources,
    CpuManagerState,
    DeviceCheckpoint,
    KubeletReport,
    MemoryBlock,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    PodDevicesEntry,
    PodResources,
    StateFiles,
)
from zonewise.machine.model.machine import Machine
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise.usage.types import Amount
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from random import Random
ACTIVE = (None, frozenset({"other"}), frozenset({"u"}))


def free_memory(history: NodeHistory, zones: tuple[int, ...], records: tuple[Record, ...]) -> int:
    """Return the free memory of a group of zones or of one zone."""
    held = sum(
        block.size
        for record in records
        for container in record.containers
        for block in container.memory
        if set(block.zones) <= set(zones)
    )
    return 15 * GIB * len(zones) - held


@given(node_histories(inits=False))
def test_any_node(history: NodeHistory) -> None:
    """In each zone or group of zones, exactly the resources of running pods are unavailable."""
    usage = compute_usage(history.machine, history.report()._replace(ended=history.ended))
    alive = tuple(record for record in history.records if record.alive)
    cpus = CpuSet.union(container.cpus for record in alive for container in record.containers)
    held_devices = {
        device_id
        for record in alive
        for container in record.containers
        for held in container.devices
        for device_id in held.ids
    }
    for zone_usage, zone in zip(usage.zones, history.machine.zones, strict=True):
        assert zone_usage.free_cpus == zone.cpus - RESERVED - cpus
        group = zone_usage.memory_group or (zone_usage.zone,)
        left = sum(member.amounts["memory"].available for member in usage.zones if member.zone in group)
        assert left == free_memory(history, group, alive)
        near = [held.ids[0] for held in history.devices if zone_usage.zone in held.zones]
        if near:
            assert zone_usage.amounts[DEVICE] == Amount(len(near), len(near), len(set(near) - held_devices))
    assert usage.problems == ()


@given(node_histories())
def test_never_more_than_remains(history: NodeHistory) -> None:
    """If init containers are only in the checkpoints, at most the remaining amount is available."""
    usage = compute_usage(history.machine, history.report())
    alive = tuple(
        record
        for record in history.records
        if record.alive and any(any(container[1:]) for container in record.pod.containers)
    )
    for zone_usage in usage.zones:
        group = zone_usage.memory_group or (zone_usage.zone,)
        left = sum(member.amounts["memory"].available for member in usage.zones if member.zone in group)
        assert left <= free_memory(history, group, alive)


@given(node_histories(inits=False))
def test_with_and_without_the_files(history: NodeHistory) -> None:
    """Without leftovers of init containers, List by itself gives the same result."""
    with_files = compute_usage(history.machine, history.report()._replace(ended=history.ended))
    without = compute_usage(history.machine, history.report(files=False))
    for first, second in zip(with_files.zones, without.zones, strict=True):
        assert first.free_cpus == second.free_cpus
        assert first.memory_group == second.memory_group
        if not first.memory_group:
            assert first.amounts == second.amounts


@given(node_histories(inits=False))
def test_files_read_before_list(history: NodeHistory) -> None:
    """A pod admitted between the reads of the files and of List counts as if both were current."""
    alive = history._replace(records=tuple(record for record in history.records if record.alive))
    before = alive._replace(records=alive.records[:-1])
    usage = compute_usage(history.machine, alive.report()._replace(state=before.report().state))
    now = compute_usage(history.machine, alive.report())
    for first, second in zip(usage.zones, now.zones, strict=True):
        assert first.free_cpus == second.free_cpus
        assert first.memory_group == second.memory_group
        assert first.amounts == second.amounts


@given(node_histories())
def test_with_cgroups_every_amount_is_known(history: NodeHistory) -> None:
    """If the active pods are known, exactly their resources are unavailable, whatever the files have of other pods."""
    alive = history._replace(records=tuple(record for record in history.records if record.alive))
    active = frozenset(record.uid for record in alive.records)
    usage = compute_usage(history.machine, history.report()._replace(active=active))
    held = [container for record in alive.records for container in record.containers]
    held_devices = {device for container in held for device in container.devices}
    for zone in usage.zones:
        near = {device for device in history.devices if zone.zone in device.zones}
        amount = zone.amounts.get(DEVICE, Amount(0, 0, 0))
        assert (amount.allocatable, amount.available) == (len(near), len(near - held_devices))
    memory = sum(block.size for container in held for block in container.memory)
    assert sum(zone.amounts["memory"].allocatable - zone.amounts["memory"].available for zone in usage.zones) == memory


@given(node_histories(), st.booleans(), st.integers(0, 6))
def test_another_pod_never_increases_available_amounts(history: NodeHistory, files: bool, index: int) -> None:
    """Another pod never increases the available amounts."""
    with_pod = history._replace(
        records=tuple(r._replace(alive=r.alive or n == index) for n, r in enumerate(history.records))
    )
    before = compute_usage(history.machine, history.report(files=files))
    after = compute_usage(history.machine, with_pod.report(files=files))
    for first, second in zip(before.zones, after.zones, strict=True):
        assert second.amounts["cpu"].available <= first.amounts["cpu"].available
        if not second.memory_group:
            assert second.amounts["memory"].available <= first.amounts["memory"].available
    total = [sum(first.amounts["memory"].available for first in usage.zones) for usage in (before, after)]
    assert total[1] <= total[0]


@given(node_histories(), st.sets(st.integers(0, 6)))
def test_excluded_pods_do_not_change_available_amounts(history: NodeHistory, indexes: set[int]) -> None:
    """Whichever pods are excluded, the available amounts do not change or exceed the allocatable ones."""
    names = {f"p{number}" for number in indexes}
    whole = compute_usage(history.machine, history.report())
    usage = compute_usage(history.machine, history.report(), lambda pod: pod.name in names)
    for first, second in zip(whole.zones, usage.zones, strict=True):
        for name, amount in second.amounts.items():
            assert (
                amount.available
                == first.amounts[name].available
                <= amount.allocatable
                <= first.amounts[name].allocatable
            )
        excluded = sum(size for name, near, size in usage.excluded if name == "memory" and near == (first.zone,))
        assert first.amounts["memory"].allocatable == second.amounts["memory"].allocatable + excluded
    assert usage.fingerprint_all == whole.fingerprint_all
    assert usage.fingerprint_exclusive == whole.fingerprint_exclusive


@given(node_histories(), st.randoms())
def test_the_order_of_responses_does_not_matter(history: NodeHistory, random: Random) -> None:
    """The same facts in any order give an equal value, including the order of its dictionaries."""
    report = history.report()
    shuffled = list(history.records)
    random.shuffle(shuffled)
    again = history._replace(records=tuple(shuffled)).report()
    devices_again = list(report.allocatable.devices)
    random.shuffle(devices_again)
    memory = list(report.allocatable.memory)
    random.shuffle(memory)
    allocatable = report.allocatable._replace(devices=tuple(devices_again), memory=tuple(memory))
    state = report.state._replace(cpu=again.state.cpu, devices=again.state.devices)
    other = report._replace(pods=again.pods, allocatable=allocatable, state=state)
    assert repr(compute_usage(history.machine, report)) == repr(compute_usage(history.machine, other))


# --- garbage

ZONES = st.lists(st.integers(-2, 6), max_size=3).map(tuple)
SIZES = st.integers(-GIB, 1 << 62)
TYPES = st.sampled_from(["memory", "hugepages-2Mi", "hugepages-1Gi", "hugepages-x", "", "cpu"])
BLOCKS: Any = st.lists(st.builds(MemoryBlock, TYPES, SIZES, ZONES), max_size=3).map(tuple)
CPUS = st.sets(st.integers(0, 40), max_size=6).map(CpuSet)
IDS = st.lists(st.sampled_from("abcde"), max_size=3).map(tuple)
DEVICES: Any = st.lists(
    st.builds(ContainerDevices, st.sampled_from(["r/a", "memory", "cpu"]), IDS, ZONES), max_size=3
).map(tuple)
CLAIMS: Any = st.lists(
    st.builds(ClaimedDevice, *[st.sampled_from("ab")] * 4, st.none() | st.just("s")), max_size=2
).map(tuple)
CONTAINERS = st.builds(ContainerResources, st.sampled_from(["a", "b", ""]), CPUS, DEVICES, BLOCKS, CLAIMS)
PODS: Any = st.lists(
    st.builds(
        PodResources, st.sampled_from(["n", ""]), st.sampled_from("pq"), st.lists(CONTAINERS, max_size=2).map(tuple)
    ),
    max_size=4,
).map(tuple)
TABLES = st.builds(MemoryTable, SIZES, SIZES, SIZES, SIZES, SIZES)
NODES = st.builds(NumaNodeState, st.integers(-2, 5), ZONES, st.dictionaries(TYPES, TABLES, max_size=2))
UIDS = st.sampled_from(["u", "v", "w"])
STATES = st.builds(
    StateFiles,
    st.none()
    | st.builds(
        CpuManagerState,
        st.sampled_from(["none", "static", "?"]),
        CPUS,
        st.dictionaries(UIDS, st.dictionaries(UIDS, CPUS)),
    ),
    st.none()
    | st.builds(
        MemoryManagerState,
        st.sampled_from(["None", "Static"]),
        st.dictionaries(st.integers(-1, 5), NODES),
        st.dictionaries(UIDS, st.dictionaries(st.sampled_from(["a", "b"]), BLOCKS)),
    ),
    st.none()
    | st.builds(
        DeviceCheckpoint,
        st.lists(
            st.builds(
                PodDevicesEntry,
                UIDS,
                st.sampled_from(["a", "b"]),
                st.just("r/a"),
                st.dictionaries(st.integers(-2, 5), IDS),
            ),
            max_size=3,
        ).map(tuple),
        st.just({}),
    ),
)
REPORTS = st.builds(
    KubeletReport, PODS, st.builds(Allocatable, CPUS, DEVICES, BLOCKS), st.none() | st.just(CONFIG), STATES
)


@settings(max_examples=80)
@given(st.sampled_from([Machine(), TWO, make_node((3, 7))]), REPORTS, st.sampled_from(["", "p", "q"]))
def test_garbage(machine: Machine, report: KubeletReport, name: str) -> None:
    """Whatever the kubelet reports, amounts are ordered, or the kubelet is not ready."""
    usage = node_usage(machine, report, excluded=lambda pod: pod.name == name)
    if isinstance(usage, KubeletNotReady):
        return
    assert [zone_usage.zone for zone_usage in usage.zones] == [zone.id for zone in machine.zones]
    for amounts_by_resource in (*(zone_usage.amounts for zone_usage in usage.zones), usage.unzoned):
        for amount in amounts_by_resource.values():
            assert 0 <= amount.available <= amount.allocatable <= amount.capacity
    assert all(problem and "\n" not in problem for problem in usage.problems)
