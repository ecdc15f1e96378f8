"""The usage of a node by examples: capacity, allocatable and available amounts of each zone."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubelet_reports import (
    CONFIG,
    DEVICE,
    GIB,
    RESERVED,
    TWO,
    NodeHistory,
    Record,
    amounts,
    compute_usage,
    make_allocatable,
    make_report,
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
from zonewise.machine.model.zone import Zone
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise.usage.types import Amount, SharedDevices, Usage
from zonewise_common.k8s.cpuset import EMPTY, CpuSet
from zonewise_common.nrt.podfingerprint import fingerprint

ACTIVE = (None, frozenset({"other"}), frozenset({"u"}))


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
    """The kubelet is not ready if a manager is static, by configuration or by its file, but nothing is allocatable."""
    allocatable = make_allocatable(TWO)._replace(**{missing: type(getattr(Allocatable(), missing))()})
    result = node_usage(TWO, KubeletReport((), allocatable, config, state))
    assert isinstance(result, KubeletNotReady)
    assert word in result.reason


def test_a_kubelet_without_exclusive_allocation() -> None:
    """With the policies none and None, everything but reservations is shared, and no CPU is exclusively free."""
    config = KubeletConfig(
        reserved_cpus=CpuSet((0, 8)), reserved_memory=((1, "hugepages-2Mi", GIB), (1, "memory", GIB))
    )
    usage = compute_usage(TWO, KubeletReport((holding("p"),), Allocatable(), config))
    assert amounts(usage, "cpu") == {0: (8, 7, 7), 1: (8, 7, 7)}
    assert amounts(usage, "memory") == {0: (16 * GIB, 15 * GIB, 15 * GIB), 1: (16 * GIB, 14 * GIB, 14 * GIB)}
    assert amounts(usage, "hugepages-2Mi") == {0: (GIB, GIB, GIB), 1: (GIB, 0, 0)}
    assert [zone_usage.free_cpus for zone_usage in usage.zones] == [None, None]
    assert usage.reserved_cpus == CpuSet((0, 8))


def test_reservations_are_unknown_without_a_configuration() -> None:
    """Without a configuration and allocatable resources, everything is shared, and reservations are unknown."""
    usage = compute_usage(TWO, KubeletReport((), Allocatable()))
    assert amounts(usage, "cpu") == {0: (8, 8, 8), 1: (8, 8, 8)}
    assert usage.reserved_cpus is None


def test_the_checkpoint_is_preferred_to_the_configuration() -> None:
    """If the configuration was changed for the next start, the running kubelet is still ready."""
    state = StateFiles(CpuManagerState("none", EMPTY, {}), MemoryManagerState("None", {}, {}))
    assert isinstance(node_usage(TWO, KubeletReport((), Allocatable(), CONFIG, state)), Usage)


# --- CPUs


def test_reserved_cpus_and_cpus_in_use() -> None:
    """Reserved CPUs are not allocatable; held CPUs are not available."""
    usage = compute_usage(TWO, make_report(holding("p", cpus=CpuSet((1, 2, 8)))))
    assert amounts(usage, "cpu") == {0: (8, 7, 5), 1: (8, 8, 7)}
    assert [str(zone_usage.free_cpus) for zone_usage in usage.zones] == ["3-7", "9-15"]
    assert usage.reserved_cpus == RESERVED


def test_cpus_only_in_the_file_are_held() -> None:
    """CPUs of an init container or a rejected pod are not in List, but not free either."""
    state = StateFiles(CpuManagerState("static", CpuSet(range(4, 16)), {}))
    assert amounts(compute_usage(TWO, make_report(state=state)), "cpu") == {0: (8, 7, 4), 1: (8, 8, 8)}


def test_a_cpu_is_free_if_free_in_both() -> None:
    """List may have a pod that the file lacks, and the file one that has left List."""
    state = StateFiles(CpuManagerState("static", CpuSet(range(3, 16)), {}))
    assert amounts(compute_usage(TWO, make_report(holding("p", cpus=CpuSet((8,))), state=state)), "cpu") == {
        0: (8, 7, 5),
        1: (8, 8, 7),
    }


def test_cpus_shared_by_containers_of_a_pod_count_once() -> None:
    """With pod-level managers, each container lists the pod's shared CPUs."""
    shared = CpuSet((1, 2))
    pod = PodResources("ns", "p", (ContainerResources("a", shared), ContainerResources("b", shared)))
    assert amounts(compute_usage(TWO, make_report(pod)), "cpu")[0] == (8, 7, 5)


def test_cpus_in_no_zone_are_reported() -> None:
    """CPUs that the kubelet reports but the machine lacks are a problem and not counted."""
    usage = compute_usage(TWO, make_report(cpus=CpuSet(range(1, 20))))
    assert amounts(usage, "cpu") == {0: (8, 7, 7), 1: (8, 8, 8)}
    assert usage.problems == ("allocatable CPUs 16-19 belong to no zone of this machine and are not counted",)


# --- memory


def block(gib: int, *zones: int) -> tuple[MemoryBlock, ...]:
    return (MemoryBlock("memory", gib * GIB, zones),)


def test_a_block_of_several_zones_fills_the_lowest_first() -> None:
    """20 GiB of zones 0 and 1 are all 15 of the first and 5 of the second; the zones form one group."""
    usage = compute_usage(TWO, make_report(holding("p", memory=block(20, 0, 1))))
    assert amounts(usage, "memory") == {0: (16 * GIB, 15 * GIB, 0), 1: (16 * GIB, 15 * GIB, 10 * GIB)}
    assert [zone_usage.memory_group for zone_usage in usage.zones] == [(0, 1), (0, 1)]


def test_huge_pages_are_counted_by_size() -> None:
    """Each type of memory is counted separately."""
    usage = compute_usage(TWO, make_report(holding("p", memory=(MemoryBlock("hugepages-2Mi", 4 << 20, (1,)),))))
    assert amounts(usage, "hugepages-2Mi") == {0: (GIB, GIB, GIB), 1: (GIB, GIB, GIB - (4 << 20))}
    assert list(usage.zones[0].amounts) == ["cpu", "memory", "hugepages-2Mi"]


def test_the_capacity_is_that_of_the_kubelet() -> None:
    """The kernel may have initialised more memory since the kubelet's start."""
    tables = {"memory": MemoryTable(12 * GIB, 0, 11 * GIB, 0, 11 * GIB)}
    state = StateFiles(memory=MemoryManagerState("Static", {0: NumaNodeState(0, (0,), tables)}, {}))
    allocatable = (MemoryBlock("memory", 11 * GIB, (0,)), MemoryBlock("memory", 15 * GIB, (1,)))
    usage = compute_usage(TWO, make_report(state=state, memory=allocatable))
    assert [zone.amounts["memory"].capacity for zone in usage.zones] == [12 * GIB, 16 * GIB]


def test_a_deleted_pod_is_released() -> None:
    """Entries of deleted pods are released, and their zones leave the group, as at the kubelet's next admission."""
    deleted = Record("u", holding("p", memory=block(20, 0, 1)), alive=False)
    usage = compute_usage(TWO, NodeHistory(TWO, (deleted,)).report())
    assert amounts(usage, "memory") == {0: (16 * GIB, 15 * GIB, 15 * GIB), 1: (16 * GIB, 15 * GIB, 15 * GIB)}
    assert [zone_usage.memory_group for zone_usage in usage.zones] == [(), ()]


def test_a_group_remains_while_one_of_its_pods_does() -> None:
    """The zones of a block are a group while anything is assigned in them."""
    alive = Record("u", holding("p", memory=block(1, 0, 1)))
    goes = Record("v", holding("q", memory=block(20, 0, 1)), alive=False)
    usage = compute_usage(TWO, NodeHistory(TWO, (alive, goes)).report())
    assert sum(amount[2] for amount in amounts(usage, "memory").values()) == 29 * GIB
    assert [zone_usage.memory_group for zone_usage in usage.zones] == [(0, 1), (0, 1)]


def test_zones_with_assigned_memory() -> None:
    """A block uses every zone of its group, even if it fits into the first. None if nothing can be assigned."""
    assert compute_usage(TWO, make_report(holding("p", memory=block(1, 0, 1)))).memory_assigned == (0, 1)
    deleted = Record("u", holding("p", memory=block(1, 0)), alive=False)
    alive = Record("v", holding("q", memory=block(1, 1)))
    assert compute_usage(TWO, NodeHistory(TWO, (deleted, alive)).report()).memory_assigned == (1,)
    assert compute_usage(TWO, make_report(memory=())._replace(config=KubeletConfig())).memory_assigned is None


def test_memory_that_is_assigned_and_free() -> None:
    """The kubelet frees an init container's memory if a later container has reused it; the zone remains assigned."""
    report = NodeHistory(TWO, (Record("u", holding("p", memory=block(2, 0))),)).report()
    assert report.state.memory is not None
    node = report.state.memory.machine_state[0]
    table = node.memory_map["memory"]
    freed = node._replace(memory_map=node.memory_map | {"memory": table._replace(free=table.allocatable, reserved=0)})
    memory = report.state.memory._replace(machine_state=report.state.memory.machine_state | {0: freed})
    usage = compute_usage(TWO, report._replace(state=report.state._replace(memory=memory)))
    assert amounts(usage, "memory")[0] == (16 * GIB, 15 * GIB, 15 * GIB)
    assert usage.memory_assigned == (0,)


def test_memory_of_init_containers_remains_held() -> None:
    """Memory that an init container left is only in the file, and is not available while its pod lives."""
    record = Record("u", holding("p", memory=block(1, 0)), (ContainerResources("init", memory=block(3, 0)),))
    assert amounts(compute_usage(TWO, NodeHistory(TWO, (record,)).report()), "memory")[0][2] == 11 * GIB


def test_a_pod_that_the_file_does_not_have_yet() -> None:
    """Its amounts are subtracted in the way in which the kubelet will record them."""
    report = NodeHistory(TWO, ()).report()._replace(pods=(holding("p", memory=block(2, 1)),))
    assert amounts(compute_usage(TWO, report), "memory")[1][2] == 13 * GIB


def test_zones_that_the_machine_does_not_have_are_reported() -> None:
    """Memory of an unknown zone is a one-line problem and has no other effect."""
    state = MemoryManagerState("Static", {9: NumaNodeState(1, (9,), {"memory": MemoryTable(1, 0, 1, 0, 1)})}, {})
    memory = (*make_allocatable(TWO).memory, MemoryBlock("memory", GIB, (9,)), MemoryBlock("memory", GIB))
    usage = compute_usage(TWO, make_report(memory=memory, state=StateFiles(memory=state)))
    assert usage.problems == (
        "1073741824 allocatable bytes of memory belong to no zone and are not counted",
        "1073741824 allocatable bytes of memory belong to zone 9, which this machine does not have",
    )


def test_a_pool_that_shrinks_while_the_kubelet_runs() -> None:
    """The amount that the kubelet counts is allocatable; the smaller amount of the machine is a problem."""
    zones = tuple(zone._replace(hugepages={"2Mi": 1}) for zone in TWO.zones)
    usage = compute_usage(TWO._replace(zones=zones), make_report())
    assert amounts(usage, "hugepages-2Mi")[0] == (GIB, GIB, GIB)
    assert usage.problems[0] == "1073741824 bytes of hugepages-2Mi are allocatable in zone 0, which has only 2097152"


def test_zones_without_cpus_and_sparse_ids() -> None:
    """Zones have the kernel's ids, and memory-only zones have no CPUs."""
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
    """The device counts in each of its zones, and is unavailable in each when it is held."""
    both = devices(("a", (0, 1)), ("b", (1,)))
    assert amounts(compute_usage(TWO, make_report(devices=both)), DEVICE) == {0: (1, 1, 1), 1: (2, 2, 2)}
    held = holding("p", devices=both[:1])
    assert amounts(compute_usage(TWO, make_report(held, devices=both)), DEVICE) == {0: (1, 1, 0), 1: (2, 2, 1)}


def test_devices_of_several_zones_are_distinguished() -> None:
    """They are listed with those of their zones that the machine has, and with their number."""
    some = devices(("a", (0, 1)), ("b", (1,)), ("c", (0, 1, 9)), ("d", (1, 9)), ("e", (0, 1)))
    usage = compute_usage(TWO, make_report(holding("p", devices=some[:1]), devices=some[:4]))
    assert usage.shared == (SharedDevices(DEVICE, (0, 1), Amount(2, 2, 1)),)
    assert compute_usage(TWO, make_report(devices=some[1:2])).shared == ()


def test_a_plugin_without_healthy_devices() -> None:
    """The resource is only in the checkpoint. It has zero amounts and unknown zones."""
    state = StateFiles(devices=DeviceCheckpoint((), {"r/none": (), "r/left": ("x",), DEVICE: ("a",)}))
    usage = compute_usage(TWO, make_report(devices=devices(("a", (0,))), state=state))
    assert usage.unzoned == {"r/left": Amount(0, 0, 0), "r/none": Amount(0, 0, 0)}


def test_devices_of_no_zone_or_an_unknown_one() -> None:
    """They are counted outside the zones; an unknown zone is reported."""
    usage = compute_usage(
        TWO, make_report(holding("p", devices=devices(("a", ()))), devices=devices(("a", ()), ("b", (9,))))
    )
    assert usage.unzoned == {DEVICE: Amount(2, 2, 1)}
    assert usage.problems == (f"1 of {DEVICE} are in zone 9, which this machine does not have",)


def test_an_unhealthy_device_that_is_held() -> None:
    """The device exists, is not allocatable, and does not reduce the amount of the others."""
    held = holding("p", devices=devices(("a", (0,))))
    usage = compute_usage(TWO, make_report(held, devices=devices(("b", (0,)))))
    assert amounts(usage, DEVICE) == {0: (2, 1, 1)}


def test_devices_left_by_init_containers() -> None:
    """They are only in the checkpoint, and held while their pod exists."""
    record = Record("u", holding("p", cpus=CpuSet((1,))), (ContainerResources("init", devices=devices(("a", (0,)))),))
    usage = compute_usage(TWO, NodeHistory(TWO, (record,), devices(("a", (0,)), ("b", (0,)))).report())
    assert amounts(usage, DEVICE) == {0: (2, 2, 1)}


def test_devices_left_by_init_containers_of_an_idle_pod() -> None:
    """They are held as long as their pod if the active pods are known; otherwise, they are free."""
    record = Record("u", holding("p"), (ContainerResources("init", devices=devices(("a", (0,)))),))
    report = NodeHistory(TWO, (record,), devices(("a", (0,)), ("b", (0,)))).report()
    left = {active: amounts(compute_usage(TWO, report._replace(active=active)), DEVICE)[0] for active in ACTIVE}
    assert left == {ACTIVE[0]: (2, 2, 2), ACTIVE[1]: (2, 2, 2), ACTIVE[2]: (2, 2, 1)}


def test_devices_of_deleted_pods() -> None:
    """The checkpoint lists them until the next allocation, but they are free."""
    state = StateFiles(devices=DeviceCheckpoint((PodDevicesEntry("u", "c", DEVICE, {0: ("a",)}),), {}))
    assert amounts(compute_usage(TWO, make_report(devices=devices(("a", (0,))), state=state)), DEVICE) == {0: (1, 1, 1)}


def test_claimed_devices() -> None:
    """A device counts once even if several containers list it through claims, and its shares count separately.

    Devices of init containers are read from the checkpoint.
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
    """Their resources are allocatable to no pod; the available amounts do not change.

    The fingerprints include them: a scheduler that compares fingerprints cannot know which pods are excluded.
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
    assert usage.excluded == ((DEVICE, (0,), 1), ("memory", (0,), 2 * GIB))
    pods = fingerprint([("ns", "other"), ("ns", "apart")])
    assert usage.fingerprint_all == usage.fingerprint_exclusive == pods


def test_fingerprints() -> None:
    """One method covers all pods, the other those with CPUs, or with memory or devices of a zone."""
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
