"""Requests of several zones for which the arrays know only what is necessary."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from benchmarks.fit_cluster import EIGHT_ZONES, kind, states
from benchmarks.fit_layouts import shapes
from support.fit_nodes import container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


def _fits(cluster: list[NodeState], shape: PodShape) -> list[int]:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    return table.fits(shape).tolist()


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_distributed_cpus_beside_memory_without_a_hint(scope: str) -> None:
    """Memory that is wider than a zone has no hint beside assigned memory, so it does not matter where CPUs go."""
    base = kind(EIGHT_ZONES, "restricted")
    policies = base.policies._replace(distribute_across_zones=True, scope=scope)
    cluster = states(replace(base, policies=policies), EIGHT_ZONES, 60)
    wide = (
        "2 wider than a zone",
        "24, the first one wider than a zone",
        "init container wider than a zone, 3 containers",
    )
    for shape in (shapes()[name] for name in wide):
        assert _fits(cluster, shape) == [admit(state, shape).admitted for state in cluster]


def test_sum_of_distributed_cpus() -> None:
    """CPUs that are distributed are free ones, so the kubelet rejects a pod that requests more than are free."""
    cpus = (15, 15, 17, 17)
    for topology, full_cores in product(("none", "best-effort"), (False, True)):
        idle = node(4, 8, topology=topology, cpu="static", full_cores=full_cores, distribute_across_zones=True)
        shape = pod(*(container(f"c{number}", cpus=2 * count, gib=1) for number, count in enumerate(cpus)))
        assert _fits([idle], shape) == [admit(idle, shape).admitted] == [False]


def test_reusable_cpus_of_more_zones_than_the_next_container_needs() -> None:
    """The hint of a container must contain all zones with reusable CPUs, and a preferred one is narrower."""
    idle = node(4, 8, topology="restricted", cpu="static")
    init = container("i", cpus=20, gib=1, role="init")
    narrow = pod(init, container("a", cpus=4, gib=1), container("b", cpus=4, gib=1))
    wide = pod(init, container("a", cpus=18, gib=1), container("b", cpus=4, gib=1))
    assert _fits([idle], narrow) == [admit(idle, narrow).admitted] == [False]
    assert _fits([idle], wide) == [-1]
    distributed = replace(idle.kind, policies=idle.kind.policies._replace(distribute_across_zones=True))
    assert _fits([idle._replace(kind=distributed)], narrow) == [False]
