"""Rows: one for each node that is known, what has changed since when, and which pods were refused since."""

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
ASKS = pod(container(cpus=2, gib=1))
OTHER = pod(container(cpus=4, gib=1))


def rows_of(**states: NodeState | None) -> NodeTable:
    rows = NodeTable()
    rows.update(states.items())
    return rows


def best(rows: NodeTable) -> list[str]:
    return list(rows.by_score(ASKS, ()))


def test_no_node() -> None:
    """Of nothing nothing is told."""
    assert best(NodeTable()) == NodeTable().change_revisions(ASKS) == []
    assert NodeTable().scores(ASKS, (), ["a"]) == [0]


def test_only_nodes_that_may_take_it() -> None:
    """The best node comes first, and none that is full comes at all."""
    half = IDLE._replace(free_cpus=0b1111)
    assert best(rows_of(a=IDLE, b=BUSY, c=half)) == ["c", "a"]


def test_crowded_nodes_come_last() -> None:
    """A node that refused any pod for those in flight comes after the others, until it changes or is eased."""
    rows = rows_of(a=IDLE, b=IDLE)
    rows.reject("a", OTHER, BLOCKED_BY_ASSUMED)
    assert best(rows) == ["b", "a"]
    assert rows.nodes_with_assumed_pods() == ["a"]
    assert rows.clear_rejections(["a", "unknown"])
    assert best(rows) == ["a", "b"]
    assert not rows.clear_rejections(["a"]), "there was nothing in its way"
    rows.reject("a", OTHER, BLOCKED_BY_ASSUMED)
    rows.update([("a", IDLE)])
    assert rows.nodes_with_assumed_pods() == []


def test_refusals_are_remembered_until_the_node_changes() -> None:
    """By node and shape; a change of one node lets the refusals of others stand."""
    rows = rows_of(a=IDLE, b=IDLE)
    for name in "ab":
        rows.reject(name, ASKS, NODE_BACKOFF)
    assert rows.nodes_in_backoff() == ["a", "b"]
    rows.update([("a", IDLE)])
    assert [rows.rejection(name, ASKS) for name in "ab"] == [None, NODE_BACKOFF]
    assert rows.rejection("b", OTHER) is None


def test_what_is_remembered_has_an_end() -> None:
    """A node that never changes does not gather all shapes there ever were."""
    rows = rows_of(a=IDLE)
    shapes = [pod(container(cpus=2, gib=number)) for number in range(200)]
    for shape in shapes:
        rows.reject("a", shape, NODE_BACKOFF)
    assert rows.rejection("a", shapes[-1]) == NODE_BACKOFF
    assert rows.rejection("a", shapes[0]) is None


def test_changes() -> None:
    """Told is, of nodes that may take a pod and have not refused it since, when they changed, ascending."""
    rows = rows_of(a=IDLE, b=IDLE, c=BUSY)
    rows.update([("a", IDLE._replace(free_cpus=0b11))])
    assert rows.change_revisions(ASKS) == [1, 2]
    rows.reject("a", ASKS, BLOCKED_BY_ASSUMED)
    assert rows.change_revisions(ASKS) == [1]
    rows.clear_rejections(["a"])
    assert rows.change_revisions(ASKS) == [1, 3]


STATES = st.sampled_from([IDLE, BUSY, None])
WRITES = st.lists(st.dictionaries(st.sampled_from("abcdef"), STATES, max_size=4), max_size=12)


@given(WRITES)
def test_rows_are_used_again(writes: list[dict[str, NodeState | None]]) -> None:
    """Whatever comes and goes: each known node has a row of its own, and there are no more than needed."""
    rows = NodeTable()
    known: dict[str, NodeState] = {}
    most = 0
    for states in writes:
        most = max(most, len({*known, *(name for name, state in states.items() if state)}))
        rows.update(states.items())
        known |= {name: state for name, state in states.items() if state is not None}
        known = {name: state for name, state in known.items() if states.get(name, state) is not None}
        places = rows.lookup("abcdef")
        assert [place != UNKNOWN_ROW for place in places] == [name in known for name in "abcdef"]
        assert set(rows) == known.keys()
        assert {name: rows.state(place) for name, place in zip("abcdef", places, strict=True) if place >= 0} == known
        assert len({place for place in places if place >= 0}) == len(known)
        assert max(places) < most
        assert sorted(best(rows)) == sorted(name for name, state in known.items() if state is IDLE)
