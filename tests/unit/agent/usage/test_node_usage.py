"""The usage of a node: capacity, allocatable and available amounts of each zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.kubelet_reports import (
    CONFIG,
    DEVICE,
    GIB,
    RESERVED,
    NodeHistory,
    Record,
    make_allocatable,
    make_node,
    node_histories,
)
from zonewise.kubelet.types import (
    Allocatable,
    ClaimedDevice,
    ClaimInfoState,
    ContainerDevices,
    ContainerResources,
    CpuManagerState,
    DeviceCheckpoint,
    KubeletConfig,
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
from zonewise.machine.model.zone import Zone
from zonewise.usage.node_usage import KubeletNotReady, exclude_none, node_usage
from zonewise.usage.types import Amount, SharedDevices, Usage
from zonewise_common.k8s.cpuset import EMPTY, CpuSet
from zonewise_common.nrt.podfingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

TWO = make_node((0, 1))
NO_FILES = StateFiles()
ACTIVE = (None, frozenset({"other"}), frozenset({"u"}))


def compute_usage(
    machine: Machine, report: KubeletReport, excluded: Callable[[PodResources], bool] = exclude_none
) -> Usage:
    usage = node_usage(machine, report, excluded=excluded)
    assert not isinstance(usage, KubeletNotReady)
    return usage


def amounts(usage: Usage, resource: str) -> dict[int, tuple[int, ...]]:
    return {
        zone_usage.zone: tuple(zone_usage.amounts[resource])
        for zone_usage in usage.zones
        if resource in zone_usage.amounts
    }


def make_report(
    *pods: PodResources, machine: Machine = TWO, state: StateFiles = NO_FILES, **allocatable: Any
) -> KubeletReport:
    return KubeletReport(pods, make_allocatable(machine)._replace(**allocatable), CONFIG, state)


def holding(name: str, **held: Any) -> PodResources:
    return PodResources("ns", name, (ContainerResources("c", **held),))


# --- readiness


@pytest.mark.parametrize(
    ("config", "state", "missing", "word"),
    [
        (CONFIG, StateFiles(), "cpus", "CPU Manager"),
        (None, StateFiles(cpu=CpuManagerState("static", EMPTY, {})), "cpus", "CPU Manager"),
        (CONFIG, StateFiles(), "memory", "Memory Manager"),
        (None, StateFiles(memory=MemoryManagerState("Static", {}, {})), "memory", "Memory Manager"),
    ],
)
def test_a_kubelet_that_starts(config: KubeletConfig | None, state: StateFiles, missing: str, word: str) -> None:
    """A static manager, by configuration or by its file, without allocatable resources is not ready."""
    allocatable = make_allocatable(TWO)._replace(**{missing: type(getattr(Allocatable(), missing))()})
    result = node_usage(TWO, KubeletReport((), allocatable, config, state))
    assert isinstance(result, KubeletNotReady)
    assert word in result.reason


def test_a_kubelet_without_exclusive_allocation() -> None:
    """Policies none and None: all is shared, less what is reserved, and no CPU is free more than another."""
    config = KubeletConfig(
        reserved_cpus=CpuSet((0, 8)), reserved_memory=((1, "hugepages-2Mi", GIB), (1, "memory", GIB))
    )
    usage = compute_usage(TWO, KubeletReport((holding("p"),), Allocatable(), config))
    assert amounts(usage, "cpu") == {0: (8, 7, 7), 1: (8, 7, 7)}
    assert amounts(usage, "memory") == {0: (16 * GIB, 15 * GIB, 15 * GIB), 1: (16 * GIB, 14 * GIB, 14 * GIB)}
    assert amounts(usage, "hugepages-2Mi") == {0: (GIB, GIB, GIB), 1: (GIB, 0, 0)}
    assert [zone_usage.free_cpus for zone_usage in usage.zones] == [None, None]
    assert usage.reserved_cpus == CpuSet((0, 8))


def test_of_an_unknown_configuration_nothing_is_known_to_be_reserved() -> None:
    """Without a configuration and without allocatable resources everything is shared, and reservations are unknown."""
    usage = compute_usage(TWO, KubeletReport((), Allocatable()))
    assert amounts(usage, "cpu") == {0: (8, 8, 8), 1: (8, 8, 8)}
    assert usage.reserved_cpus is None


def test_the_checkpoint_is_preferred_to_the_configuration() -> None:
    """A configuration that was changed for the next start does not make the running kubelet unready."""
    state = StateFiles(CpuManagerState("none", EMPTY, {}), MemoryManagerState("None", {}, {}))
    assert isinstance(node_usage(TWO, KubeletReport((), Allocatable(), CONFIG, state)), Usage)


# --- CPUs


def test_reserved_and_held_cpus() -> None:
    """Reserved CPUs are not allocatable; held ones are not available."""
    usage = compute_usage(TWO, make_report(holding("p", cpus=CpuSet((1, 2, 8)))))
    assert amounts(usage, "cpu") == {0: (8, 7, 5), 1: (8, 8, 7)}
    assert [str(zone_usage.free_cpus) for zone_usage in usage.zones] == ["3-7", "9-15"]
    assert usage.reserved_cpus == RESERVED


def test_cpus_only_in_the_file_are_held() -> None:
    """CPUs of an init container or a rejected pod are not in List, and not free."""
    state = StateFiles(CpuManagerState("static", CpuSet(range(4, 16)), {}))
    assert amounts(compute_usage(TWO, make_report(state=state)), "cpu") == {0: (8, 7, 4), 1: (8, 8, 8)}


def test_a_cpu_is_free_if_free_in_both() -> None:
    """List knows a pod that the file does not have yet, and the file one that has left List."""
    state = StateFiles(CpuManagerState("static", CpuSet(range(3, 16)), {}))
    assert amounts(compute_usage(TWO, make_report(holding("p", cpus=CpuSet((8,))), state=state)), "cpu") == {
        0: (8, 7, 5),
        1: (8, 8, 7),
    }


def test_cpus_shared_by_containers_of_a_pod_count_once() -> None:
    """With pod-level managers each container lists the pod's shared CPUs."""
    shared = CpuSet((1, 2))
    pod = PodResources("ns", "p", (ContainerResources("a", shared), ContainerResources("b", shared)))
    assert amounts(compute_usage(TWO, make_report(pod)), "cpu")[0] == (8, 7, 5)


def test_cpus_in_no_zone_are_reported() -> None:
    """CPUs that the kubelet knows and the machine has not are a problem, and counted nowhere."""
    usage = compute_usage(TWO, make_report(cpus=CpuSet(range(1, 20))))
    assert amounts(usage, "cpu") == {0: (8, 7, 7), 1: (8, 8, 8)}
    assert usage.problems == ("allocatable CPUs 16-19 are in no zone of this machine: they are not counted",)


# --- memory


def block(gib: int, *zones: int) -> tuple[MemoryBlock, ...]:
    return (MemoryBlock("memory", gib * GIB, zones),)


def test_a_block_of_several_zones_uses_up_the_lowest() -> None:
    """20 GiB of zones 0 and 1 are all 15 of the first and 5 of the second, and the zones are one group."""
    usage = compute_usage(TWO, make_report(holding("p", memory=block(20, 0, 1))))
    assert amounts(usage, "memory") == {0: (16 * GIB, 15 * GIB, 0), 1: (16 * GIB, 15 * GIB, 10 * GIB)}
    assert [zone_usage.memory_group for zone_usage in usage.zones] == [(0, 1), (0, 1)]


def test_huge_pages_are_counted_by_size() -> None:
    """Each type of memory is on its own."""
    usage = compute_usage(TWO, make_report(holding("p", memory=(MemoryBlock("hugepages-2Mi", 4 << 20, (1,)),))))
    assert amounts(usage, "hugepages-2Mi") == {0: (GIB, GIB, GIB), 1: (GIB, GIB, GIB - (4 << 20))}
    assert list(usage.zones[0].amounts) == ["cpu", "memory", "hugepages-2Mi"]


def test_a_deleted_pod_is_released() -> None:
    """Entries of deleted pods are released, and their zones leave the group, as at the kubelet's next admission."""
    deleted = Record("u", holding("p", memory=block(20, 0, 1)), alive=False)
    usage = compute_usage(TWO, NodeHistory(TWO, (deleted,)).report())
    assert amounts(usage, "memory") == {0: (16 * GIB, 15 * GIB, 15 * GIB), 1: (16 * GIB, 15 * GIB, 15 * GIB)}
    assert [zone_usage.memory_group for zone_usage in usage.zones] == [(), ()]


def test_a_group_stays_while_one_of_its_pods_does() -> None:
    """The zones of a block are one while anything is assigned in them."""
    alive = Record("u", holding("p", memory=block(1, 0, 1)))
    goes = Record("v", holding("q", memory=block(20, 0, 1)), alive=False)
    usage = compute_usage(TWO, NodeHistory(TWO, (alive, goes)).report())
    assert sum(amount[2] for amount in amounts(usage, "memory").values()) == 29 * GIB
    assert [zone_usage.memory_group for zone_usage in usage.zones] == [(0, 1), (0, 1)]


def test_zones_of_which_memory_is_assigned() -> None:
    """A block uses every zone of its group, even if it fits into the first; None where nothing can be assigned."""
    assert compute_usage(TWO, make_report(holding("p", memory=block(1, 0, 1)))).memory_assigned == (0, 1)
    deleted = Record("u", holding("p", memory=block(1, 0)), alive=False)
    alive = Record("v", holding("q", memory=block(1, 1)))
    assert compute_usage(TWO, NodeHistory(TWO, (deleted, alive)).report()).memory_assigned == (1,)
    assert compute_usage(TWO, make_report(memory=())._replace(config=KubeletConfig())).memory_assigned is None


def test_memory_that_is_assigned_and_free() -> None:
    """The kubelet frees what an init container had under the one that took it over: the zone stays assigned."""
    report = NodeHistory(TWO, (Record("u", holding("p", memory=block(2, 0))),)).report()
    assert report.state.memory is not None
    node = report.state.memory.machine_state[0]
    table = node.memory_map["memory"]
    freed = node._replace(memory_map=node.memory_map | {"memory": table._replace(free=table.allocatable, reserved=0)})
    memory = report.state.memory._replace(machine_state=report.state.memory.machine_state | {0: freed})
    usage = compute_usage(TWO, report._replace(state=report.state._replace(memory=memory)))
    assert amounts(usage, "memory")[0] == (16 * GIB, 15 * GIB, 15 * GIB)
    assert usage.memory_assigned == (0,)


def test_memory_of_init_containers_stays_held() -> None:
    """What an init container has left is in the file alone, and not available while its pod lives."""
    record = Record("u", holding("p", memory=block(1, 0)), (ContainerResources("init", memory=block(3, 0)),))
    assert amounts(compute_usage(TWO, NodeHistory(TWO, (record,)).report()), "memory")[0][2] == 11 * GIB


def test_a_pod_that_the_file_does_not_have_yet() -> None:
    """It is charged for as the kubelet will write it down."""
    report = NodeHistory(TWO, ()).report()._replace(pods=(holding("p", memory=block(2, 1)),))
    assert amounts(compute_usage(TWO, report), "memory")[1][2] == 13 * GIB


def test_zones_that_the_machine_does_not_have_are_reported() -> None:
    """Memory of an unknown zone is a sentence, and breaks nothing."""
    state = MemoryManagerState("Static", {9: NumaNodeState(1, (9,), {"memory": MemoryTable(1, 0, 1, 0, 1)})}, {})
    memory = (*make_allocatable(TWO).memory, MemoryBlock("memory", GIB, (9,)), MemoryBlock("memory", GIB))
    usage = compute_usage(TWO, make_report(memory=memory, state=StateFiles(memory=state)))
    assert usage.problems == (
        "1073741824 allocatable bytes of memory are of no zone: they are not counted",
        "1073741824 allocatable bytes of memory are of zone 9, which this machine does not have",
    )


def test_a_pool_made_smaller_under_the_kubelet() -> None:
    """What the kubelet counts is allocatable; that the machine has less is a problem."""
    zones = tuple(zone._replace(hugepages={"2Mi": 1}) for zone in TWO.zones)
    usage = compute_usage(TWO._replace(zones=zones), make_report())
    assert amounts(usage, "hugepages-2Mi")[0] == (GIB, GIB, GIB)
    assert usage.problems[0] == "1073741824 bytes of hugepages-2Mi of zone 0 are allocatable, which has 2097152"


def test_zones_without_cpus_and_sparse_ids() -> None:
    """Zones keep the kernel's ids, and zones of memory alone have no CPUs."""
    far = Zone(17, EMPTY, EMPTY, 4 * GIB, {}, {}, "memory")
    machine = TWO._replace(zones=(*TWO.zones, far))
    memory = (*make_allocatable(TWO).memory, MemoryBlock("memory", 3 * GIB, (17,)))
    usage = compute_usage(machine, make_report(holding("p", memory=block(2, 17)), memory=memory))
    assert [zone_usage.zone for zone_usage in usage.zones] == [0, 1, 17]
    assert usage.zones[2].amounts == {"memory": Amount(4 * GIB, 3 * GIB, GIB)}


# --- devices


def devices(*entries: tuple[str, tuple[int, ...]]) -> tuple[ContainerDevices, ...]:
    return tuple(ContainerDevices(DEVICE, (device_id,), zones) for device_id, zones in entries)


def test_a_device_of_several_zones() -> None:
    """It counts in each of them, and when held it is unavailable in each."""
    both = devices(("a", (0, 1)), ("b", (1,)))
    assert amounts(compute_usage(TWO, make_report(devices=both)), DEVICE) == {0: (1, 1, 1), 1: (2, 2, 2)}
    held = holding("p", devices=both[:1])
    assert amounts(compute_usage(TWO, make_report(held, devices=both)), DEVICE) == {0: (1, 1, 0), 1: (2, 2, 1)}


def test_devices_of_several_zones_are_distinguished() -> None:
    """With the zones that the machine has, and as often as they are there; those of one zone are not among them."""
    some = devices(("a", (0, 1)), ("b", (1,)), ("c", (0, 1, 9)), ("d", (1, 9)), ("e", (0, 1)))
    usage = compute_usage(TWO, make_report(holding("p", devices=some[:1]), devices=some[:4]))
    assert usage.shared == (SharedDevices(DEVICE, (0, 1), Amount(2, 2, 1)),)
    assert compute_usage(TWO, make_report(devices=some[1:2])).shared == ()


def test_a_plugin_without_healthy_devices() -> None:
    """Its resource is present with zero amounts, as only the checkpoint has it; the zones are unknown."""
    state = StateFiles(devices=DeviceCheckpoint((), {"r/none": (), "r/left": ("x",), DEVICE: ("a",)}))
    usage = compute_usage(TWO, make_report(devices=devices(("a", (0,))), state=state))
    assert usage.unzoned == {"r/left": Amount(0, 0, 0), "r/none": Amount(0, 0, 0)}


def test_devices_of_no_zone_or_an_unknown_one() -> None:
    """They are counted beside the zones; an unknown zone is reported."""
    usage = compute_usage(
        TWO, make_report(holding("p", devices=devices(("a", ()))), devices=devices(("a", ()), ("b", (9,))))
    )
    assert usage.unzoned == {DEVICE: Amount(2, 2, 1)}
    assert usage.problems == (f"1 of {DEVICE} are in zone 9, which this machine does not have",)


def test_a_device_that_is_held_and_ill() -> None:
    """It exists, is not allocatable, and does not reduce the others."""
    held = holding("p", devices=devices(("a", (0,))))
    usage = compute_usage(TWO, make_report(held, devices=devices(("b", (0,)))))
    assert amounts(usage, DEVICE) == {0: (2, 1, 1)}


def test_devices_left_by_init_containers() -> None:
    """They are in the checkpoint alone, and held while their pod is there."""
    record = Record("u", holding("p", cpus=CpuSet((1,))), (ContainerResources("init", devices=devices(("a", (0,)))),))
    usage = compute_usage(TWO, NodeHistory(TWO, (record,), devices(("a", (0,)), ("b", (0,)))).report())
    assert amounts(usage, DEVICE) == {0: (2, 2, 1)}


def test_devices_left_by_init_containers_alone() -> None:
    """Where it is known which pods are active, they are held as long as theirs is; where it is not, they are free."""
    record = Record("u", holding("p"), (ContainerResources("init", devices=devices(("a", (0,)))),))
    report = NodeHistory(TWO, (record,), devices(("a", (0,)), ("b", (0,)))).report()
    left = {active: amounts(compute_usage(TWO, report._replace(active=active)), DEVICE)[0] for active in ACTIVE}
    assert left == {ACTIVE[0]: (2, 2, 2), ACTIVE[1]: (2, 2, 2), ACTIVE[2]: (2, 2, 1)}


def test_devices_of_deleted_pods() -> None:
    """The checkpoint keeps them until the next allocation; they are free."""
    state = StateFiles(devices=DeviceCheckpoint((PodDevicesEntry("u", "c", DEVICE, {0: ("a",)}),), {}))
    assert amounts(compute_usage(TWO, make_report(devices=devices(("a", (0,))), state=state)), DEVICE) == {0: (1, 1, 1)}


def test_claimed_devices() -> None:
    """A device that several containers list through claims counts once, its shares apart, and those of init
    containers come from the checkpoint.
    """
    device = ClaimedDevice("gpu.example.com", "node", "gpu-0", "ns/a")
    again = device._replace(claim="ns/b")
    shares = (device._replace(device="gpu-1", share="s1"), device._replace(device="gpu-1", share="s2"))
    init = device._replace(driver="net.example.com")
    state = StateFiles(claims=(ClaimInfoState("ns", "c", ("u",), (init, device)),))
    usage = compute_usage(
        TWO, make_report(holding("p", claimed=(device, *shares)), holding("q", claimed=(again,)), state=state)
    )
    assert usage.claimed == {"gpu.example.com": 3, "net.example.com": 1}


# --- excluded pods


def test_excluded_pods_count_as_reserved() -> None:
    """What they hold is allocatable to no pod, what others hold and have left is as before, and they are in no
    fingerprint.
    """
    apart = holding("apart", cpus=CpuSet((1,)), memory=block(2, 0), devices=devices(("a", (0,))))
    counted = holding("other", cpus=CpuSet((2,)), memory=block(1, 0), devices=devices(("b", (0,))))
    report = make_report(apart, counted, devices=devices(("a", (0,)), ("b", (0,)), ("c", (0,))))
    with_all = compute_usage(TWO, report).zones[0].amounts
    usage = compute_usage(TWO, report, lambda pod: pod.name == "apart")
    left = usage.zones[0].amounts
    assert {name: amount.available for name, amount in left.items()} == {
        name: amount.available for name, amount in with_all.items()
    }
    assert (left["cpu"].allocatable, left["memory"].allocatable, left[DEVICE].allocatable) == (6, 13 * GIB, 2)
    assert usage.fingerprint_all == usage.fingerprint_exclusive == fingerprint([("ns", "other")])


def test_fingerprints() -> None:
    """Both methods: all pods, and those with CPUs, or with memory or devices of a zone."""
    pods = (
        holding("nothing"),
        holding("unzoned", devices=devices(("n", ())), memory=(MemoryBlock("memory", 0),)),
        holding("cpu", cpus=CpuSet((1,))),
        holding("memory", memory=block(1, 0)),
        holding("device", devices=devices(("a", (1,)))),
    )
    usage = compute_usage(TWO, make_report(*pods))
    assert usage.fingerprint_all == fingerprint((pod.namespace, pod.name) for pod in pods)
    assert usage.fingerprint_exclusive == fingerprint((pod.namespace, pod.name) for pod in pods[2:])


# --- any node


def free_memory(history: NodeHistory, zones: tuple[int, ...], records: tuple[Record, ...]) -> int:
    """What is left in zones that are one, or in one zone."""
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
    """Of each zone, or group of zones, exactly what pods that are alive hold is not available."""
    usage = compute_usage(history.machine, history.report())
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
def test_never_more_than_there_is(history: NodeHistory) -> None:
    """With init containers in the checkpoints that List lacks, the available amount is at most what is left."""
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
    """List alone gives the same result without leftovers of init containers."""
    with_files = compute_usage(history.machine, history.report())
    without = compute_usage(history.machine, history.report(files=False))
    for first, second in zip(with_files.zones, without.zones, strict=True):
        assert first.free_cpus == second.free_cpus
        assert first.memory_group == second.memory_group
        if not first.memory_group:
            assert first.amounts == second.amounts


@given(node_histories(inits=False))
def test_files_of_a_moment_ago(history: NodeHistory) -> None:
    """A pod that came between the reading of the files and of List is charged for as if both were of now."""
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
    """Where it is known which pods are active, what is left is what they do not have, whatever files keep of others."""
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
def test_a_pod_more_never_leaves_more(history: NodeHistory, files: bool, index: int) -> None:
    """One more pod reduces the available amounts or leaves them alone."""
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
def test_excluded_pods_leave_the_rest_right(history: NodeHistory, indexes: set[int]) -> None:
    """Whatever pods are excluded, the available amounts are equal, and nothing exceeds the allocatable ones."""
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


@given(node_histories(), st.randoms())
def test_the_order_of_responses_makes_no_difference(history: NodeHistory, random: Random) -> None:
    """The same facts in any order are the same value, to the order of its dictionaries."""
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
    """Whatever the kubelet reports, there is a usage with ordered amounts, or it is not ready."""
    usage = node_usage(machine, report, excluded=lambda pod: pod.name == name)
    if isinstance(usage, KubeletNotReady):
        return
    assert [zone_usage.zone for zone_usage in usage.zones] == [zone.id for zone in machine.zones]
    for amounts_by_resource in (*(zone_usage.amounts for zone_usage in usage.zones), usage.unzoned):
        for amount in amounts_by_resource.values():
            assert 0 <= amount.available <= amount.allocatable <= amount.capacity
    assert all(problem and "\n" not in problem for problem in usage.problems)
