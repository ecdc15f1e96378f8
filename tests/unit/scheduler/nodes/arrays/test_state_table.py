from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fit_cluster import GIB, TWO_ZONES, kind, pod, states
from support.any_nodes import clusters, pods
from support.fit_nodes import in_a_row
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import NodeState
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable


def _table(cluster: list[NodeState]) -> NodeStateTable:
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    return table


def _one_by_one(cluster: list[NodeState], shape: PodShape) -> list[bool]:
    return [admit(state, shape).admitted for state in cluster]


@given(clusters(), pods())
def test_all_nodes_at_once_answer_as_one_by_one(cluster: list[NodeState], shape: PodShape) -> None:
    """Where the arrays answer they answer as the kubelet, and resolved() does everywhere."""
    table = _table(cluster)
    expected = _one_by_one(cluster, shape)
    for fits, admitted in zip(table.fits(shape).tolist(), expected, strict=True):
        assert fits in {-1, admitted}
    assert table.admitted(shape).tolist() == expected


@given(clusters(("single-numa-node", "restricted"), most=12), pods(simple=True))
def test_aligned_pods_of_apps_and_sidecars(cluster: list[NodeState], shape: PodShape) -> None:
    table = _table(cluster)
    expected = _one_by_one(cluster, shape)
    for fits, admitted in zip(table.fits(shape).tolist(), expected, strict=True):
        assert fits in {-1, admitted}


@given(clusters(), pods(), st.integers(0, 5))
def test_copies_are_pods_one_after_another(cluster: list[NodeState], shape: PodShape, limit: int) -> None:
    """copies() is the number of times in a row that the kubelet admits the pod."""
    assert _table(cluster).pod_counts(shape, limit).tolist() == [in_a_row(state, shape, limit) for state in cluster]


@settings(max_examples=40)
@given(st.lists(clusters(most=6), min_size=2, max_size=4), pods(), st.data())
def test_changed_rows_change_only_themselves(
    waves: list[list[NodeState]], shape: PodShape, data: st.DataObject
) -> None:
    """Whatever rows are set, moved to other layouts and cleared, kept answers are those of a fresh table."""
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


def test_many_rows_grow_the_arrays_and_keep_what_was_there() -> None:
    """Rows beyond the first capacity, set one by one, answer as if set at once."""
    one = kind(TWO_ZONES)
    nodes = states(one, TWO_ZONES, 100)
    table = NodeStateTable()
    for row, state in enumerate(nodes):
        table.set(row, state)
        table.fits(pod(4))
    assert table.rows == 100
    assert table.state(99) == nodes[99]
    assert table.fits(pod(4)).tolist() == _table(nodes).fits(pod(4)).tolist()
    assert set(table.fits(pod(4)).tolist()) == {0, 1}


def test_an_empty_table_answers_nothing_and_a_cleared_row_refuses() -> None:
    table = NodeStateTable()
    assert table.fits(pod()).tolist() == []
    table.set(2, None)
    assert table.admitted(pod()).tolist() == [False, False, False]
    assert table.pod_counts(pod(), 3).tolist() == [0, 0, 0]


def test_common_pods_never_need_admit() -> None:
    """Arrays suffice for Guaranteed pods of apps and sidecars with everything, and for pods of shared CPUs."""
    common = pod(4).containers[0]
    several = PodShape((common._replace(name="s", role="sidecar"), common, common._replace(name="b")), "Guaranteed")
    shared = PodShape((Container("a", "app", 500, devices=common.devices),), "Burstable")
    for topology in ("single-numa-node", "restricted"):
        table = _table(states(kind(TWO_ZONES, topology), TWO_ZONES, 50))
        for one in (pod(4), pod(60, 6), several, shared):
            assert -1 not in table.fits(one).tolist()


def test_restricted_takes_sets_of_zones_of_one_width() -> None:
    """60 CPUs, 6 devices and 600 GiB need two zones each: empty nodes take them, and a node in use does not."""
    one = kind(TWO_ZONES, "restricted")
    empty = NodeState(
        one, one.cpus.cpus & ~one.cpus.reserved, one.allocatable, (1, 2), 0, tuple(c.total for c in one.devices)
    )
    asked = pod(120, 6, memory=600)
    asked = asked._replace(containers=(asked.containers[0]._replace(memory=(("memory", 600 * GIB),)),))
    cluster = [empty, empty._replace(memory_assigned=1), empty._replace(device_free=(0,) * 6)]
    assert _table(cluster).fits(asked).tolist() == [1, 0, 0]
    assert _one_by_one(cluster, asked) == [True, False, False]


def test_containers_are_given_memory_that_their_sum_has_no_hint_for() -> None:
    """In scope pod three containers of 1 GiB get on a node with 2 GiB free in each zone: the kubelet's own quirk."""
    one = kind(TWO_ZONES)
    one = replace(one, policies=one.policies._replace(scope="pod"))
    left = ((0, 2 * GIB), (0, 2 * GIB))
    used = NodeState(one, one.cpus.cpus & ~one.cpus.reserved, left, (1, 2), 3, (0,) * len(one.devices))
    part = Container("a", "app", 500, (("memory", GIB),))
    shape = PodShape((part, part._replace(name="b"), part._replace(name="c")), "Guaranteed")
    table = _table([used])
    assert table.fits(shape).tolist() == [-1]
    assert table.admitted(shape).tolist() == _one_by_one([used], shape) == [True]
