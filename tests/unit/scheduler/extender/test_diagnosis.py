"""Reasons are few, each is true of the node that was looked at, and all nodes have one."""

from __future__ import annotations

from support.fit_nodes import GPU, STATIC, container, node, pod
from zonewise_scheduler.extender.diagnosis import LEDGER_REASONS, NO_REPORT, diagnose
from zonewise_scheduler.extender.node_table import NodeTable
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED

SMALL = node(2, 2, topology="single-numa-node", **STATIC)
BARE = node(2, 8, topology="single-numa-node", **STATIC)
ASKS = pod(container(cpus=6, gib=1))
ASKS_GPU = pod(container(cpus=2, gib=1, devices={GPU: 1}))


def rows_of(**states: object) -> NodeTable:
    rows = NodeTable()
    rows.update(states.items())  # pyright: ignore[reportArgumentType]
    return rows


def test_each_node_its_own_reason() -> None:
    """Of few nodes each has its own reason, without the numbers that only it has: equal reasons are counted."""
    rows = rows_of(a=SMALL, b=SMALL, c=BARE)
    told = diagnose(ASKS, ["a", "b", "c", "d"], rows)
    assert told["a"] == told["b"] == "node(s) would refuse it: needs 6 CPUs in one zone"
    assert told["c"] == LEDGER_REASONS[BLOCKED_BY_ASSUMED]
    assert told["d"] == NO_REPORT


def test_many_nodes() -> None:
    """Of very many nodes the commonest reason stands for those that were not looked at, and all have one."""
    rows = rows_of(**{f"n{number}": SMALL for number in range(100)})
    names = [f"n{number}" for number in range(120)]
    told = diagnose(ASKS, names, rows)
    assert list(told) == names
    assert set(told.values()) == {"node(s) would refuse it: needs 6 CPUs in one zone", NO_REPORT}
    assert sum(reason == NO_REPORT for reason in told.values()) == 20


def test_some_of_many_nodes() -> None:
    """Of whatever few of many nodes, at least one is looked at."""
    rows = rows_of(**{f"n{number}": SMALL for number in range(100)})
    for number in range(100):
        assert "needs 6 CPUs" in diagnose(ASKS, [f"n{number}"], rows)[f"n{number}"]


def test_no_node() -> None:
    """Nothing is said where nothing was asked, or nothing is known."""
    assert diagnose(ASKS_GPU, [], rows_of()) == {}
    assert diagnose(ASKS_GPU, ["a"], rows_of()) == {"a": NO_REPORT}
