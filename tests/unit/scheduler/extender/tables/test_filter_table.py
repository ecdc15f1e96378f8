"""The filters of all nodes at once: the results match the filters of each node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.tables.filter_table import FilterTable
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins
from zonewise_scheduler.nodes.node.node_info import NodeInfo, lacks

GPU = "example.com/gpu"
NAMES = [f"n{number}" for number in range(150)]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.integers(0, 4)), max_size=200), st.integers(0, 4))
def test_results_match_the_filters_of_each_node(changes: list[tuple[str, int | None]], cpus: int) -> None:
    """Nodes are added and removed, including more nodes than the table had rows at first."""
    table, nodes = FilterTable(), dict[str, NodeInfo]()
    table.update((name, NodeInfo(name, allocatable=Resource(2000, 0, 10, 0))) for name in NAMES[:80])
    nodes.update({name: NodeInfo(name, allocatable=Resource(2000, 0, 10, 0)) for name in NAMES[:80]})
    for name, allocatable in changes:
        info = None if allocatable is None else NodeInfo(name, allocatable=Resource(1000 * allocatable, 0, 10, 0))
        table.update([(name, info)])
        if info is None:
            nodes.pop(name, None)
        else:
            nodes[name] = info
    pod = Constraints(Resource(1000 * cpus, 0, 1, 0))
    expected = {name for name, info in nodes.items() if run_filter_plugins(pod, info) is None}
    passing = table.passing(pod)
    assert set(passing) == expected
    assert bool(passing) == bool(expected)
    assert {name for name in NAMES if name in passing} == expected


@given(st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.booleans()), min_size=2, max_size=20))
def test_lacking_nodes(nodes: list[tuple[int | None, bool]]) -> None:
    """Of some names, the nodes that lack a resource are returned, whether or not nodes share their allocatable."""
    shared = Resource(2000, 0, 10, 0)
    table, names, expected = FilterTable(), {"unknown"}, set[str]()
    for name, (amount, is_named) in zip(NAMES, nodes, strict=False):
        info = NodeInfo(name, allocatable=shared._replace(scalar_resources=((GPU, amount),)) if amount else shared)
        table.update([(name, None if amount is None else info)])
        if is_named:
            names.add(name)
            expected |= {name} if amount is not None and lacks(info, GPU) else set()
    assert table.lacking(GPU, names) == expected
