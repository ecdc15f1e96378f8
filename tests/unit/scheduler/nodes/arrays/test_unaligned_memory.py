"""Memory under policies that do not reject pods because of zones."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.any_nodes import UNIT, kinds
from support.any_nodes import state as any_state
from support.fit_nodes import GIB, GPU, STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind

ALL, ONE = 0b11, 0b10


def _verdicts(shape_cpus: float, gib: float, *, free: tuple[int, int], assigned: int, **options: object) -> list[int]:
    """Return the verdicts of the arrays and of the kubelet."""
    devices = options.pop("devices", None)
    state = node(**STATIC, devices={GPU: {1: 2}} if devices else None, **options)  # type: ignore[arg-type]
    state = state._replace(memory_free=tuple((size * GIB,) for size in free), memory_assigned=assigned)
    shape = pod(container(cpus=shape_cpus, gib=gib, devices={GPU: 1} if devices else None))
    table = NodeStateTable()
    table.set(0, state)
    return [int(table.fits(shape)[0]), int(admit(state, shape).admitted)]


@pytest.mark.parametrize("topology", ["none", "best-effort"])
def test_sets_of_zones(topology: str) -> None:
    """Zones without assigned memory serve a request together, and other zones only alone."""
    assert _verdicts(1, 10, free=(8, 8), assigned=0, topology=topology) == [1, 1]
    assert _verdicts(1, 10, free=(8, 8), assigned=ONE, topology=topology) == [0, 0]
    assert _verdicts(1, 10, free=(8, 10), assigned=ALL, topology=topology) == [1, 1]
    assert _verdicts(16, 10, free=(8, 10), assigned=ALL, topology=topology) == [1, 1]
    assert _verdicts(17, 1, free=(8, 10), assigned=0, topology=topology) == [0, 0]


def test_best_effort_with_devices_near_another_zone() -> None:
    """Since 1.36 no hint of the devices has the zone with the memory, so the hint is all zones, across all groups."""
    undecided, admitted = _verdicts(
        1, 10, free=(8, 10), assigned=ALL, topology="best-effort", release=(1, 36), devices=True
    )
    assert (undecided, admitted) == (-1, 0)
    assert _verdicts(1, 10, free=(8, 10), assigned=ALL, topology="best-effort", release=(1, 34), devices=True) == [1, 1]


@pytest.mark.parametrize("topology", ["best-effort", "restricted", "single-numa-node"])
def test_whole_pods_with_more_memory_than_any_set(topology: str) -> None:
    """In scope pod all containers get memory from one set of zones, so if anything is aligned, their sum decides."""
    state = node(**STATIC, topology=topology, scope="pod", gib=20)
    one = container("a", cpus=1, gib=6)
    shape = pod(one, one._replace(name="b"), one._replace(name="c"))
    used = state._replace(memory_free=((13 * GIB,), (13 * GIB,)), memory_assigned=ALL)
    table = NodeStateTable()
    table.set_rows({0: used, 1: used._replace(memory_free=((13 * GIB,), (18 * GIB,)))})
    assert table.fits(shape).tolist() == [0, 1]
    assert [admit(used, shape).admitted, table.judge(1, shape)] == [False, True]


@given(
    kinds(("single-numa-node",)),
    st.integers(0, 1 << 32),
    st.lists(st.integers(1, 8), min_size=2, max_size=5),
    st.data(),
)
def test_containers_whose_sum_has_no_hint(kind: NodeKind, seed: int, sizes: list[int], data: st.DataObject) -> None:
    """Without groups, arrays decide about containers with only memory, whatever memory each zone has left."""
    kind = replace(kind, policies=kind.policies._replace(scope="pod", memory="Static", release=(1, 36)))
    source = random.Random(seed)
    groups = tuple(1 << zone for zone in kind.zones)
    cluster = [any_state(kind, source)._replace(memory_groups=groups) for _ in range(6)]
    inits = data.draw(st.integers(0, len(sizes) - 1))
    shape = PodShape(
        tuple(
            Container(f"c{number}", "init" if number < inits else "app", 500, (("memory", size * UNIT),))
            for number, size in enumerate(sizes)
        ),
        "Guaranteed",
    )
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    wide = max(sizes) * UNIT > max(row[-1] for row in kind.allocatable)
    for fits, state in zip(table.fits(shape).tolist(), cluster, strict=True):
        assert fits in ({-1, admit(state, shape).admitted} if wide else {admit(state, shape).admitted})


def test_init_containers_of_several_zones() -> None:
    """With memory left in two zones by an init container, a container finds too little free: a quirk of the kubelet."""
    state = node(**STATIC, topology="restricted", scope="pod")._replace(memory_free=((8 * GIB,), (12 * GIB,)))
    init = container("i", cpus=0.5, gib=18)._replace(role="init")
    shape = pod(init, container("a", cpus=0.5, gib=5))
    table = NodeStateTable()
    table.set(0, state)
    assert table.fits(shape).tolist() == [admit(state, shape).admitted] == [False]
