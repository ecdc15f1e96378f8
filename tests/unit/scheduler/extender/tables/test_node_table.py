"""The node table: a row for each reported node, the revisions of changes, and rejections since then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import STATIC, container, node, pod
from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget
from zonewise_scheduler.extender.tables.node_table import UNKNOWN_ROW, NodeTable
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
    """An empty table has no nodes and no changes, and its scores are 0."""
    assert best(NodeTable()) == NodeTable().change_revisions(TWO_CPUS) == []
    assert NodeTable().scores(TWO_CPUS, (), ["a"]) == [0]


def test_only_nodes_that_may_admit_the_pod() -> None:
    """The best node comes first, and full nodes are left out."""
    half = IDLE._replace(free_cpus=0b1111)
    assert best(table_with(a=IDLE, b=BUSY, c=half)) == ["c", "a"]


def test_nodes_with_assumed_pods_come_last() -> None:
    """A node that rejected a pod because of assumed pods comes last until it changes or its rejections are cleared."""
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
    """Rejections are stored by node and shape; a change of one node does not affect the rejections of others."""
    table = table_with(a=IDLE, b=IDLE)
    for name in "ab":
        table.reject(name, TWO_CPUS, NODE_BACKOFF)
    assert table.nodes_in_backoff() == ["a", "b"]
    table.update([("a", IDLE)])
    assert [table.rejection(name, TWO_CPUS) for name in "ab"] == [None, NODE_BACKOFF]
    assert table.rejection("b", FOUR_CPUS) is None


def test_rejections_are_bounded() -> None:
    """A node that never changes does not collect rejections of every shape."""
    table = table_with(a=IDLE)
    shapes = [pod(container(cpus=2, gib=number)) for number in range(200)]
    for shape in shapes:
        table.reject("a", shape, NODE_BACKOFF)
    assert table.rejection("a", shapes[-1]) == NODE_BACKOFF
    assert table.rejection("a", shapes[0]) is None


def test_changes() -> None:
    """In ascending order: the revisions of nodes that may admit a pod and have not rejected it since."""
    table = table_with(a=IDLE, b=IDLE, c=BUSY)
    table.update([("a", IDLE._replace(free_cpus=0b11))])
    assert table.change_revisions(TWO_CPUS) == [1, 2]
    table.reject("a", TWO_CPUS, BLOCKED_BY_ASSUMED)
    assert table.change_revisions(TWO_CPUS) == [1]
    table.clear_rejections(["a"])
    assert table.change_revisions(TWO_CPUS) == [1, 3]


class _Steps:
    """A clock that advances by one with each reading."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 1.0
        return self._now


def _budget(judged: int) -> JudgingBudget:
    """Return a budget that suffices for the given number of nodes."""
    return JudgingBudget(judged + 0.5, _Steps())


_GROUPS = {"memory_groups": (0b11, 0b11, 0b100), "memory_assigned": 0b11}
GROUPED = node(zones=3, topology="restricted", **STATIC)._replace(**_GROUPS)
"""A node with two zones that allocate memory together, so that arrays give no verdict on `TEN_CPUS`."""
TEN_CPUS = pod(container(cpus=10, gib=20))
GROUPED_WITHOUT_ROOM = GROUPED._replace(memory_free=((8 << 30,), (8 << 30,), (14 << 30,)))


def _judged(table: NodeTable, budget: JudgingBudget | None, nodes: str = "abcdef") -> list[str]:
    return list(table.by_score(TEN_CPUS, (), nodes, budget))


def test_judged_within_a_budget() -> None:
    """With a budget, each candidate that arrays do not decide is judged; without a budget, all of them are returned."""
    table = table_with(a=GROUPED_WITHOUT_ROOM, b=GROUPED, c=GROUPED_WITHOUT_ROOM, d=GROUPED)
    assert sorted(_judged(table, None)) == ["a", "b", "c", "d"]
    assert _judged(table, _budget(10), nodes="ab") == ["b"]
    assert sorted(_judged(table, _budget(10))) == ["b", "d"]
    assert table.unjudged(TEN_CPUS, "abcd") == []


def test_judgement_goes_on_after_the_budget() -> None:
    """Each call judges further nodes, earlier verdicts are reused, and a node that admits the pod counts as changed."""
    rejecting = {f"n{number}": GROUPED_WITHOUT_ROOM for number in range(5)}
    table = table_with(**rejecting, b=GROUPED)
    names = [*rejecting, "b"]
    assert list(table.by_score(TEN_CPUS, (), names, _budget(2))) == []
    assert table.unjudged(TEN_CPUS, names) == ["n2", "n3", "n4", "b"]
    assert not table.judge_more(_budget(2))
    assert table.unjudged(TEN_CPUS, names) == ["n4", "b"]
    before = table.revision
    assert table.judge_more(_budget(5))
    assert table.change_revisions(TEN_CPUS) == [before + 1]
    assert list(table.by_score(TEN_CPUS, (), names, _budget(0))) == ["b"]
    assert not table.judge_more(_budget(5))
    assert table.unjudged(TEN_CPUS, names) == []


def test_shapes_of_finished_calls_are_not_continued() -> None:
    """When a call needs no more nodes, the nodes that earlier calls left out are no longer judged."""
    table = table_with(a=GROUPED, b=GROUPED)
    assert _judged(table, _budget(0)) == []
    assert next(table.by_score(TEN_CPUS, (), "ab", _budget(1))) == "a"
    assert not table.judge_more(_budget(5))
    assert table.unjudged(TEN_CPUS, "ab") == ["b"]


def test_stored_rejections_need_no_judgement() -> None:
    """A node that rejected the pod since its last change is returned for its reason, and is not judged again."""
    table = table_with(a=GROUPED, b=GROUPED)
    table.reject("a", TEN_CPUS, NODE_BACKOFF)
    assert _judged(table, _budget(0)) == ["a"]
    assert table.unjudged(TEN_CPUS, "ab") == ["b"]


def test_unfinished_shapes_are_bounded() -> None:
    """Only the latest shapes are judged further."""
    table = table_with(a=GROUPED)
    shapes = [TEN_CPUS._replace(containers=(container(cpus=10, gib=20)._replace(storage=n),)) for n in range(100)]
    for shape in shapes:
        assert list(table.by_score(shape, (), "a", _budget(0))) == []
    while table.judge_more(_budget(1000)):
        pass
    assert table.unjudged(shapes[0], "a") == ["a"]
    assert table.unjudged(shapes[-1], "a") == []


STATES = st.sampled_from([IDLE, BUSY, None])
WRITES = st.lists(st.dictionaries(st.sampled_from("abcdef"), STATES, max_size=4), max_size=12)


@given(WRITES)
def test_rows_are_reused(writes: list[dict[str, NodeState | None]]) -> None:
    """In any history, each reported node has its own row, and there are no more rows than needed."""
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
