"""The node table: one row for each reported node, revisions of changes, and rejections since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import STATIC, container, node, pod
from zonewise_scheduler.extender.node_table import UNKNOWN_ROW, NodeTable
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, NODE_BACKOFF

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

IDLE = node(topology="single-numa-node", **STATIC)
BUSY = IDLE._replace(free_cpus=0)
TWO_CPUS = pod(container(cpus=2, gib=1))
FOUR_CPUS = pod(container(cpus=4, gib=1))


def table_with(**states: NodeState | None) -> NodeTable:
    table = NodeTable()
    table.update(states.items())
    return table


def best(table: NodeTable) -> list[str]:
    return list(table.by_score(TWO_CPUS, ()))


def test_no_node() -> None:
    """An empty table has no nodes, no changes, and scores 0."""
    assert best(NodeTable()) == NodeTable().change_revisions(TWO_CPUS) == []
    assert NodeTable().scores(TWO_CPUS, (), ["a"]) == [0]


def test_only_nodes_that_may_admit_it() -> None:
    """The best node comes first, and a full node is left out."""
    half = IDLE._replace(free_cpus=0b1111)
    assert best(table_with(a=IDLE, b=BUSY, c=half)) == ["c", "a"]


def test_nodes_with_assumed_pods_come_last() -> None:
    """A node that rejected a pod because of assumed pods comes last, until it changes or its rejections are cleared."""
    table = table_with(a=IDLE, b=IDLE)
    table.reject("a", FOUR_CPUS, BLOCKED_BY_ASSUMED)
    assert best(table) == ["b", "a"]
    assert table.nodes_with_assumed_pods() == ["a"]
    assert table.clear_rejections(["a", "unknown"])
    assert best(table) == ["a", "b"]
    assert not table.clear_rejections(["a"]), "there was nothing in its way"
    table.reject("a", FOUR_CPUS, BLOCKED_BY_ASSUMED)
    table.update([("a", IDLE)])
    assert table.nodes_with_assumed_pods() == []


def test_rejections_last_until_the_node_changes() -> None:
    """Rejections are stored by node and shape; a change of one node leaves those of others."""
    table = table_with(a=IDLE, b=IDLE)
    for name in "ab":
        table.reject(name, TWO_CPUS, NODE_BACKOFF)
    assert table.nodes_in_backoff() == ["a", "b"]
    table.update([("a", IDLE)])
    assert [table.rejection(name, TWO_CPUS) for name in "ab"] == [None, NODE_BACKOFF]
    assert table.rejection("b", FOUR_CPUS) is None


def test_rejections_are_bounded() -> None:
    """A node that never changes does not collect every shape."""
    table = table_with(a=IDLE)
    shapes = [pod(container(cpus=2, gib=number)) for number in range(200)]
    for shape in shapes:
        table.reject("a", shape, NODE_BACKOFF)
    assert table.rejection("a", shapes[-1]) == NODE_BACKOFF
    assert table.rejection("a", shapes[0]) is None


def test_changes() -> None:
    """The revisions of nodes that may admit a pod and have not rejected it since, ascending."""
    table = table_with(a=IDLE, b=IDLE, c=BUSY)
    table.update([("a", IDLE._replace(free_cpus=0b11))])
    assert table.change_revisions(TWO_CPUS) == [1, 2]
    table.reject("a", TWO_CPUS, BLOCKED_BY_ASSUMED)
    assert table.change_revisions(TWO_CPUS) == [1]
    table.clear_rejections(["a"])
    assert table.change_revisions(TWO_CPUS) == [1, 3]


STATES = st.sampled_from([IDLE, BUSY, None])
WRITES = st.lists(st.dictionaries(st.sampled_from("abcdef"), STATES, max_size=4), max_size=12)


@given(WRITES)
def test_rows_are_reused(writes: list[dict[str, NodeState | None]]) -> None:
    """Each reported node has its own row, and there are no more rows than needed, in any history."""
    table = NodeTable()
    known: dict[str, NodeState] = {}
    max_rows = 0
    for states in writes:
        max_rows = max(max_rows, len({*known, *(name for name, state in states.items() if state)}))
        table.update(states.items())
        known |= {name: state for name, state in states.items() if state is not None}
        known = {name: state for name, state in known.items() if states.get(name, state) is not None}
        rows = table.lookup("abcdef")
        assert [row != UNKNOWN_ROW for row in rows] == [name in known for name in "abcdef"]
        assert set(table) == known.keys()
        assert {name: table.state(row) for name, row in zip("abcdef", rows, strict=True) if row >= 0} == known
        assert len({row for row in rows if row >= 0}) == len(known)
        assert max(rows) < max_rows
        assert sorted(best(table)) == sorted(name for name, state in known.items() if state is IDLE)
