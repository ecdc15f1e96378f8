"""Whole pods of which only init containers request hugepages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.support.fit_cluster import EIGHT_ZONES, kind, states
from benchmarks.support.fit_layouts import shapes
from support.fit_nodes import GIB, STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

ALL = 0b11


@pytest.mark.parametrize("topology", ["best-effort", "restricted", "single-numa-node"])
def test_zone_with_and_without_the_hugepages(topology: str) -> None:
    """The pod is aligned to the lowest zone with its memory, whether or not this zone has the hugepages."""
    idle = node(**STATIC, topology=topology, scope="pod", gib=20, pages=4)
    used = idle._replace(memory_assigned=ALL)
    shape = pod(container("i", cpus=1, gib=2, pages=3, role="init"), container("a", cpus=2, gib=10))
    cluster = [
        used,
        used._replace(memory_free=((2 * GIB, 20 * GIB), (4 * GIB, 20 * GIB))),
        used._replace(memory_free=((2 * GIB, 9 * GIB), (4 * GIB, 20 * GIB))),
        used._replace(memory_free=((2 * GIB, 9 * GIB), (4 * GIB, 9 * GIB))),
    ]
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    assert table.fits(shape).tolist() == [1, 0, 1, 0]
    assert [admit(state, shape).admitted for state in cluster] == [True, False, True, False]


def test_hugepages_that_no_zone_could_have() -> None:
    """In this case the Memory Manager may extend the pod's zone, so arrays do not decide."""
    idle = node(**STATIC, topology="restricted", scope="pod", gib=20, pages=4)
    shape = pod(container("i", cpus=1, gib=2, pages=6, role="init"), container("a", cpus=2, gib=10))
    cluster = [idle, idle._replace(memory_assigned=ALL)]
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    assert table.fits(shape).tolist() == [-1, -1]
    assert [admit(state, shape).admitted for state in cluster] == [True, False]


@pytest.mark.parametrize("topology", ["best-effort", "restricted", "single-numa-node"])
def test_used_nodes_never_need_admit(topology: str) -> None:
    """Arrays suffice if all zones have assigned memory, and no zone has the memory of all app containers."""
    base = kind(EIGHT_ZONES, topology)
    cluster = states(replace(base, policies=base.policies._replace(scope="pod")), EIGHT_ZONES, 100)
    shape = shapes()["hugepages of an init container only"]
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    assert table.fits(shape).tolist() == [admit(state, shape).admitted for state in cluster]
