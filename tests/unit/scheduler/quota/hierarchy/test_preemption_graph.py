"""The preemption graph: which preemptions would close a ring."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.hierarchy.preemption_graph import PreemptionGraph

WORKLOADS = "abcd"
EDGES = st.lists(
    st.tuples(st.sampled_from(WORKLOADS), st.sampled_from(WORKLOADS)).filter(lambda edge: edge[0] != edge[1])
)


def make_graph(edges: list[tuple[str, str]]) -> PreemptionGraph:
    graph = PreemptionGraph()
    for preemptor, victim in edges:
        graph.add(preemptor, victim)
    return graph


def victims_by_any_path(edges: list[tuple[str, str]], preemptor: str) -> set[str]:
    victims = {victim for key, victim in edges if key == preemptor}
    while more := {victim for key, victim in edges if key in victims} - victims:
        victims |= more
    return victims


@given(EDGES)
def test_a_second_preemption_is_forbidden_if_the_victim_leads_back(edges: list[tuple[str, str]]) -> None:
    graph = make_graph(edges)
    for preemptor in WORKLOADS:
        victims = {victim for key, victim in edges if key == preemptor}
        ring = {victim for victim in victims if preemptor in victims_by_any_path(edges, victim)}
        assert graph.forbidden(preemptor) == ring


@given(EDGES, st.sampled_from(WORKLOADS))
def test_forgotten_workloads_have_no_edges(edges: list[tuple[str, str]], key: str) -> None:
    """The graph is as if these workloads had never been part of a preemption; a copy does not change."""
    graph = make_graph(edges)
    before = graph.copy()
    assert graph.forget(key) == any(key in edge for edge in edges)
    remaining = make_graph([edge for edge in edges if key not in edge])
    for preemptor in WORKLOADS:
        assert graph.forbidden(preemptor) == remaining.forbidden(preemptor)
        assert before.forbidden(preemptor) == make_graph(edges).forbidden(preemptor)


def test_a_ring_of_three() -> None:
    """The first preemption of each pair is permitted; the ring is not repeated."""
    graph = make_graph([("a", "b"), ("b", "c")])
    assert graph.forbidden("c") == set()
    graph.add("c", "a")
    assert [set(graph.forbidden(preemptor)) for preemptor in "abc"] == [{"b"}, {"c"}, {"a"}]
