"""Diagnoses: every node has a reason, there are few distinct ones, and each is true for its sampled node."""

from __future__ import annotations

from support.fit_nodes import GPU, STATIC, container, node, pod
from zonewise_scheduler.admission.errors import TOPOLOGY_AFFINITY_ERROR
from zonewise_scheduler.extender.failed_nodes import RejectionCause
from zonewise_scheduler.extender.tables.diagnosis import LEDGER_REASONS, NO_REPORT, diagnose
from zonewise_scheduler.extender.tables.node_table import NodeTable
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED
from zonewise_scheduler.nodes.assumed.types import NO_REPORT as LEDGER_NO_REPORT

SMALL = node(2, 2, topology="single-numa-node", **STATIC)
BARE = node(2, 8, topology="single-numa-node", **STATIC)
SIX_CPUS = pod(container(cpus=6, gib=1))
ONE_GPU = pod(container(cpus=2, gib=1, devices={GPU: 1}))


def table_with(**states: object) -> NodeTable:
    table = NodeTable()
    table.update(states.items())  # pyright: ignore[reportArgumentType]
    return table


def test_each_node_its_own_reason() -> None:
    """With few nodes each has its own reason, without numbers of the node, so that equal reasons can be counted."""
    table = table_with(a=SMALL, b=SMALL, c=BARE)
    reasons = diagnose(SIX_CPUS, ["a", "b", "c", "d"], table)
    assert reasons["a"] == reasons["b"] == "node(s) would reject it: needs 6 CPUs in one zone"
    assert reasons["c"] == LEDGER_REASONS[BLOCKED_BY_ASSUMED]
    assert reasons["d"] == NO_REPORT
    assert reasons.cause == RejectionCause(TOPOLOGY_AFFINITY_ERROR, "cpu")


def test_many_nodes() -> None:
    """With many nodes, the nodes that are not sampled get the most common reason of the sample."""
    table = table_with(**{f"n{number}": SMALL for number in range(100)})
    names = [f"n{number}" for number in range(120)]
    reasons = diagnose(SIX_CPUS, names, table)
    assert list(reasons) == names
    assert set(reasons.values()) == {"node(s) would reject it: needs 6 CPUs in one zone", NO_REPORT}
    assert sum(reason == NO_REPORT for reason in reasons.values()) == 20


def test_some_of_many_nodes() -> None:
    """At least one candidate is sampled, whichever row it has."""
    table = table_with(**{f"n{number}": SMALL for number in range(100)})
    for number in range(100):
        assert "needs 6 CPUs" in diagnose(SIX_CPUS, [f"n{number}"], table)[f"n{number}"]


def test_no_node() -> None:
    """Without candidates there are no reasons; the reason of a candidate without a report is the missing report."""
    assert diagnose(ONE_GPU, [], table_with()) == {}
    reasons = diagnose(ONE_GPU, ["a"], table_with())
    assert (reasons, reasons.cause) == ({"a": NO_REPORT}, RejectionCause(LEDGER_NO_REPORT))
