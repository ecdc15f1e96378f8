from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.fit_cluster import DEVICES, EIGHT_ZONES, GIB, TWO_ZONES, kind, pod, states
from benchmarks.support.fit_layouts import cluster as sample_cluster
from support.any_nodes import clusters, pods
from support.fit_nodes import GPU, STATIC, admitted_in_sequence, container, node
from support.fit_nodes import pod as fit_pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import DeviceClass, NodeState, idle_node
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable


def _table(cluster: list[NodeState]) -> NodeStateTable:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    return table


def _admit_each(cluster: list[NodeState], shape: PodShape) -> list[bool]:
    return [admit(state, shape).admitted for state in cluster]


@given(clusters(), pods())
def test_table_agrees_with_admit(cluster: list[NodeState], shape: PodShape) -> None:
    """fits() is the kubelet's verdict or undecided; admitted() is always the kubelet's verdict."""
    table = _table(cluster)
    expected = _admit_each(cluster, shape)
    for fits, admitted in zip(table.fits(shape).tolist(), expected, strict=True):
        assert fits in {-1, admitted}
    assert table.admitted(shape).tolist() == expected


@given(clusters(most=12), pods(inits=True))
def test_pods_with_init_containers(cluster: list[NodeState], shape: PodShape) -> None:
    """Resources left by ordinary init containers are reused by the rules of the kubelet's managers."""
    table = _table(cluster)
    expected = _admit_each(cluster, shape)
    for fits, admitted in zip(table.fits(shape).tolist(), expected, strict=True):
        assert fits in {-1, admitted}


@given(clusters(("single-numa-node", "restricted"), most=12), pods(simple=True))
def test_aligned_pods_with_sidecars(cluster: list[NodeState], shape: PodShape) -> None:
    table = _table(cluster)
    expected = _admit_each(cluster, shape)
    for fits, admitted in zip(table.fits(shape).tolist(), expected, strict=True):
        assert fits in {-1, admitted}


@given(clusters(), pods(), st.integers(0, 5))
def test_pod_counts_agree_with_admit(cluster: list[NodeState], shape: PodShape, limit: int) -> None:
    """pod_counts() is the number of times in a row that the kubelet admits the pod."""
    assert _table(cluster).pod_counts(shape, limit).tolist() == [
        admitted_in_sequence(state, shape, limit) for state in cluster
    ]


def test_counts_of_pods_with_only_devices_aligned() -> None:
    """A pod that is allocated as a whole may have no exclusive CPUs or memory, but its devices count."""
    devices = {GPU: {1: 2, 2: 3}}
    state = node(topology="single-numa-node", scope="pod", pod_level_managers=True, devices=devices, **STATIC)
    shape = fit_pod(container(cpus=1, gib=1, devices={GPU: 2}), qos="Burstable")
    shape = shape._replace(pod_level=PodLevelResources(1000))
    assert admitted_in_sequence(state, shape, 9) == 2
    assert _table([state]).pod_counts(shape, 9).tolist() == [2]


@pytest.mark.parametrize("topology", ["restricted", "single-numa-node"])
def test_counts_of_pods_with_pages_of_sidecars_only(topology: str) -> None:
    """The kubelet aligns a whole pod without such pages, so the second pod is aligned to a zone without any."""
    state = node(topology=topology, scope="pod", pages=4, **STATIC)
    state = state._replace(memory_free=((4 * GIB, 16 * GIB), (0, 16 * GIB)))
    shape = fit_pod(container("s", gib=6, role="sidecar", pages=1), container(gib=6))
    assert admitted_in_sequence(state, shape, 2) == 1
    assert _table([state]).pod_counts(shape, 2).tolist() == [1]


def test_devices_without_zones_of_pods_whose_memory_has_no_hint() -> None:
    """Each container gets its own memory, but one of the nodes lacks the device."""
    state = node(topology="single-numa-node", scope="pod", memory="Static", devices={GPU: {0: 1}})
    shape = fit_pod(container(gib=12, devices={GPU: 1}), container("b", gib=12))
    for free in (1, 0):
        cluster = [state._replace(device_free=(free,), memory_assigned=1)]
        assert _table(cluster).fits(shape).tolist() == _admit_each(cluster, shape)


@settings(max_examples=40)
@given(st.lists(clusters(most=6), min_size=2, max_size=4), pods(), st.data())
def test_changed_rows(waves: list[list[NodeState]], shape: PodShape, data: st.DataObject) -> None:
    """Rows are set, moved to other layouts and cleared; cached results equal those of a new table."""
    table = NodeStateTable()
    states: dict[int, NodeState | None] = {}
    for wave in waves:
        rows = data.draw(st.permutations(range(8)))
        changed: dict[int, NodeState | None] = dict(zip(rows, wave, strict=False))
        if states:
            changed[data.draw(st.sampled_from(sorted(states)))] = None
        states |= changed
        table.set_rows(changed)
        fresh = NodeStateTable()
        fresh.set_rows(states)
        fresh.set(7, states.get(7))
        table.set(7, states.get(7))
        assert table.fits(shape).tolist() == fresh.fits(shape).tolist()
        assert table.admitted(shape).tolist() == fresh.admitted(shape).tolist()
        assert table.pod_counts(shape, 2).tolist() == fresh.pod_counts(shape, 2).tolist()


@pytest.mark.parametrize("topology", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("zones", [63, 64, 65, 100])
def test_more_zones_than_a_set_of_zones_holds(zones: int, topology: str) -> None:
    """Nodes of many zones, the last with assigned memory, get the kubelet's verdict in a table with other nodes."""
    many = node(zones, 1, topology=topology, max_zones=zones, **STATIC)._replace(memory_assigned=1 << zones - 1)
    cluster = [many, node(topology=topology, **STATIC)]
    for shape in (fit_pod(container(cpus=2, gib=1)), fit_pod(container(cpus=2), qos="Burstable")):
        table = _table(cluster)
        assert table.admitted(shape).tolist() == _admit_each(cluster, shape)
        assert table.pod_counts(shape, 2).tolist() == [admitted_in_sequence(state, shape, 2) for state in cluster]


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    "one",
    [container(cpus=1 << 62), container(gib=1 << 32), container(devices={GPU: 1 << 62})],
    ids=["CPUs", "memory", "devices"],
)
def test_requests_that_exceed_64_bits(one: Container, scope: str) -> None:
    """Such pods are rejected like other pods that are too large."""
    table = _table([node(topology="single-numa-node", scope=scope, devices={GPU: {1: 2}}, **STATIC)])
    huge = fit_pod(*(one._replace(name=name) for name in "abc"))
    assert table.fits(huge).tolist() == [0]
    assert table.pod_counts(huge, 3).tolist() == [0]


def test_growing_arrays() -> None:
    """Rows that are added one by one beyond the initial capacity get the same verdicts as rows added at once."""
    node_kind = kind(TWO_ZONES)
    nodes = states(node_kind, TWO_ZONES, 100)
    table = NodeStateTable()
    for row, state in enumerate(nodes):
        table.set(row, state)
        table.fits(pod(4))
    assert table.rows == 100
    assert table.state(99) == nodes[99]
    assert table.fits(pod(4)).tolist() == _table(nodes).fits(pod(4)).tolist()
    assert set(table.fits(pod(4)).tolist()) == {0, 1}


def test_empty_table_and_cleared_row() -> None:
    table = NodeStateTable()
    assert table.fits(pod()).tolist() == []
    table.set(2, None)
    assert table.admitted(pod()).tolist() == [False, False, False]
    assert table.pod_counts(pod(), 3).tolist() == [0, 0, 0]


def test_common_pods_never_need_admit() -> None:
    """Arrays suffice for Guaranteed pods of apps and sidecars with all resources, and for pods on shared CPUs."""
    common = pod(4).containers[0]
    several = PodShape((common._replace(name="s", role="sidecar"), common, common._replace(name="b")), "Guaranteed")
    shared = PodShape((Container("a", "app", 500, devices=common.devices),), "Burstable")
    for topology in ("single-numa-node", "restricted"):
        table = _table(states(kind(TWO_ZONES, topology), TWO_ZONES, 50))
        for shape in (pod(4), pod(60, 6), several, shared):
            assert -1 not in table.fits(shape).tolist()


def test_init_containers_never_need_admit() -> None:
    """Arrays suffice for pods whose init containers and containers are allocated from one zone each."""
    common = pod(4).containers[0]
    inits = tuple(common._replace(name=f"i{count}", role="init", milli_cpus=2000 * count) for count in (1, 3, 2, 2))
    shape = PodShape((*inits, common, common._replace(name="b")), "Guaranteed")
    for topology, distribute in product(("single-numa-node", "restricted"), (False, True)):
        node_kind = kind(EIGHT_ZONES, topology)
        node_kind = replace(node_kind, policies=node_kind.policies._replace(distribute_across_zones=distribute))
        cluster = states(node_kind, EIGHT_ZONES, 50)
        fits = _table(cluster).fits(shape).tolist()
        assert fits == _admit_each(cluster, shape)
        assert set(fits) == {0, 1}


def test_policies_without_alignment_never_need_admit() -> None:
    """Under none and best-effort, arrays suffice for pods of one container, even if some zones lack resources."""
    for topology in ("none", "best-effort"):
        cluster = states(kind(TWO_ZONES, topology), TWO_ZONES, 200)
        for shape in (pod(4), pod(60, 6), pod(30, 2, memory=300), pod(90, resources=(), memory=400)):
            fits = _table(cluster).fits(shape).tolist()
            assert fits == _admit_each(cluster, shape)
            assert set(fits) == {0, 1}


def test_models_of_machines_share_arrays() -> None:
    """Machines with other CPUs, distances and reserved cores get their own verdicts from the same arrays."""
    cluster = sample_cluster(60, 20, {"topology": "restricted"})
    table = _table(cluster)
    for shape in (pod(4, resources=()), pod(12, 1), pod(20, resources=(), memory=60)):
        fits = table.fits(shape).tolist()
        assert fits == _admit_each(cluster, shape)
    blocks: list[int] = []
    table.gather(np.zeros(table.rows), lambda block: np.full(block.rows.size, blocks.append(block.rows.size) or 0.0))
    assert sum(blocks) == 60
    assert len(blocks) <= 4


def test_judged_rows_remain_decided_until_they_change() -> None:
    """judge() stores the verdict of an undecided row; other rows with equal states remain undecided."""
    node_kind = kind(TWO_ZONES, "restricted")
    node_kind = replace(node_kind, policies=node_kind.policies._replace(align_by_package=True, full_cores=False))
    (state,) = states(node_kind, TWO_ZONES, 1)
    (one,) = pod(4, 0, memory=1).containers
    shape = PodShape((one, one._replace(name="b")), "Guaranteed")
    table = _table([state, state])
    assert table.fits(shape).tolist() == [-1, -1]
    admitted = table.judge(0, shape)
    assert admitted == admit(state, shape).admitted
    assert table.fits(shape).tolist() == [admitted, -1]
    table.set(0, state)
    assert table.fits(shape).tolist() == [-1, -1]
    table.set(0, None)
    assert not table.judge(0, shape)


def test_restricted_with_several_zones() -> None:
    """60 CPUs, 6 devices and 600 GiB need two zones each: an empty node admits the pod, but a used node does not."""
    node_kind = kind(TWO_ZONES, "restricted")
    empty = NodeState(
        node_kind,
        node_kind.cpus.cpus & ~node_kind.cpus.reserved,
        node_kind.allocatable,
        (1, 2),
        0,
        tuple(c.total for c in node_kind.devices),
    )
    shape = pod(120, 6, memory=600)
    shape = shape._replace(containers=(shape.containers[0]._replace(memory=(("memory", 600 * GIB),)),))
    cluster = [empty, empty._replace(memory_assigned=1), empty._replace(device_free=(0,) * 6)]
    assert _table(cluster).fits(shape).tolist() == [1, 0, 0]
    assert _admit_each(cluster, shape) == [True, False, False]


def test_memory_of_containers_whose_sum_has_no_hint() -> None:
    """In scope pod, three containers of 1 GiB are admitted with 2 GiB free in each zone, a quirk of the kubelet."""
    node_kind = kind(TWO_ZONES)
    node_kind = replace(node_kind, policies=node_kind.policies._replace(scope="pod"))
    memory_free = ((0, 2 * GIB), (0, 2 * GIB))
    used = NodeState(
        node_kind, node_kind.cpus.cpus & ~node_kind.cpus.reserved, memory_free, (1, 2), 3, (0,) * len(node_kind.devices)
    )
    container = Container("a", "app", 500, (("memory", GIB),))
    shape = PodShape((container, container._replace(name="b"), container._replace(name="c")), "Guaranteed")
    full = used._replace(memory_free=((0, 2 * GIB), (0, GIB // 2)))
    assert _table([used, full]).fits(shape).tolist() == _admit_each([used, full], shape) == [True, False]


@pytest.mark.parametrize("topology", ["single-numa-node", "restricted", "best-effort"])
def test_a_limit_of_0_for_devices_near_a_missing_zone(topology: str) -> None:
    """Such a resource has hints for all zones; a resource with a device on the node has hints only for near zones."""
    node = kind(TWO_ZONES, topology)
    devices = (DeviceClass(DEVICES[0], 1 << 5, 1, 1), DeviceClass(DEVICES[1], 1, 1, 1))
    state = idle_node(replace(node, devices=devices))
    limits = ((DEVICES[0], 0), (DEVICES[1], 0))
    none = PodShape((Container("main", "app", 2000, (("memory", GIB),), limits),), "Guaranteed")
    table = _table([state])
    assert admit(state, none).admitted
    assert table.fits(none).tolist()[0] in {-1, True}
