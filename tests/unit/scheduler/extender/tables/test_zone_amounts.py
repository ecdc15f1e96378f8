"""Free amounts per zone over all nodes: the results match sums over the individual states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GIB, GPU, NIC, STATIC, node
from zonewise_scheduler.extender.tables.node_table import NodeTable
from zonewise_scheduler.extender.tables.zone_amounts import ZoneAmount

TWO_ZONES = node(2, 4, devices={GPU: {1: 4, 2: 4}, NIC: {0: 2}}, topology="single-numa-node", **STATIC)
FOUR_ZONES = node(4, 2, gib=8, topology="restricted", **STATIC)
STATES = st.one_of(
    st.tuples(st.just(TWO_ZONES), st.integers(0, 0xFFFF), st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.tuples(st.just(FOUR_ZONES), st.integers(0, 0xFFFF), st.just((0, 0))),
)


@given(st.lists(STATES, max_size=8))
def test_amounts_match_the_node_states(states: list[tuple[object, int, tuple[int, int]]]) -> None:
    """An amount has the largest zone of any node, the sum of each node's largest zone, and the sum of all zones."""
    table = NodeTable()
    cpus: list[list[int]] = []
    gpus: list[tuple[int, int]] = []
    for number, (idle, free, devices) in enumerate(states):
        base = TWO_ZONES if idle is TWO_ZONES else FOUR_ZONES
        device_free = (*devices, 2) if base is TWO_ZONES else ()
        state = base._replace(free_cpus=free, device_free=_ordered(device_free))
        table.update([(f"n{number}", state)])
        cpus.append([(free & zone).bit_count() for _, zone in base.kind.cpus.zones])
        gpus += [devices] if base is TWO_ZONES else []
    amounts = table.free_by_zone()
    expected = ZoneAmount(max(map(max, cpus), default=0), sum(map(max, cpus)), sum(map(sum, cpus)))
    assert amounts.get("cpu", ZoneAmount(0, 0, 0)) == expected
    assert expected.largest_ratio == (expected.in_largest / expected.total if expected.total else None)
    if gpus:
        assert amounts[GPU] == ZoneAmount(max(map(max, gpus)), sum(map(max, gpus)), sum(map(sum, gpus)))
    assert NIC not in amounts, "its devices belong to no zone"


def _ordered(free: tuple[int, ...]) -> tuple[int, ...]:
    """Return free devices in the order of the kind's classes, given GPUs of zones 0 and 1, then network devices."""
    classes = TWO_ZONES.kind.devices
    by_class = dict(zip([(GPU, 1), (GPU, 2), (NIC, 0)], free, strict=False))
    return tuple(by_class[each.resource, each.zones] for each in classes) if free else ()


def test_memory_of_zones_that_allocate_together() -> None:
    """Neither zone can allocate the memory alone."""
    table = NodeTable()
    table.update([("n", TWO_ZONES._replace(memory_groups=(3, 3)))])
    assert table.free_by_zone()["memory"].largest == 0
    table.update([("n", TWO_ZONES)])
    assert table.free_by_zone()["memory"] == ZoneAmount(16 * GIB, 16 * GIB, 32 * GIB)
