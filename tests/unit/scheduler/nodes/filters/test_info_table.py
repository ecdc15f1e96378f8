"""The filters as arrays, compared with the filters for a single node."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.filters.filter_plugins import node_resources_fit, run_filter_plugins
from zonewise_scheduler.nodes.filters.info_table import MAX_LABELS, OUTCOMES, UNKNOWN, NodeInfoTable
from zonewise_scheduler.nodes.node.host_ports import ALL_ADDRESSES, HostPort
from zonewise_scheduler.nodes.node.node_info import Labels, NodeInfo, PodInfo, add_pod

WHOLE = Resource(4000, 100, 3, 10, (("x/gpu", 2),))

KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["1", "2", "x"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
SIZES = st.integers(0, 4)
PORTS = st.lists(
    st.builds(HostPort, st.sampled_from([ALL_ADDRESSES, "1.1.1.1"]), st.just("TCP"), st.integers(1, 2)), max_size=2
)


@st.composite
def resources(draw: st.DrawFn, pods: int = 0) -> Resource:
    scalar_resources = {name: size for name in ("x/gpu", "x/nic") if (size := draw(SIZES))}
    return Resource(draw(SIZES), draw(SIZES), pods or draw(SIZES), draw(SIZES), tuple(scalar_resources.items()))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeInfo:
    labels = draw(st.dictionaries(KEYS, VALUES))
    named = tuple(key for key in ("host",) if draw(st.booleans()))
    return NodeInfo(
        name,
        Labels(tuple(sorted(labels)), tuple(labels[key] for key in sorted(labels)), named),
        tuple(draw(st.lists(st.builds(Taint, KEYS, VALUES, EFFECTS), max_size=2))),
        draw(st.sampled_from([False, False, True])),
        draw(resources()),
        requested=draw(st.one_of(st.just(Resource(0, 0, 0, 0)), resources())),
        ports=tuple(draw(PORTS)),
    )


REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1).map(tuple)),
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Requirement, KEYS, st.sampled_from(["Gt", "Lt"]), st.just(("1",))),
    st.builds(Requirement, st.just("host"), st.just("In"), st.just(("n1",))),
)
FIELDS = st.builds(
    Requirement,
    st.sampled_from(["metadata.name", "metadata.uid"]),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from([("n0",), ("n1",), ("other",)]),
)
TERMS = st.builds(
    NodeSelectorTerm, st.lists(REQUIREMENTS, max_size=2).map(tuple), st.lists(FIELDS, max_size=1).map(tuple)
)
TOLERATIONS = st.builds(
    Toleration,
    st.one_of(st.just(""), KEYS),
    st.sampled_from(["Exists", "Equal", "Gt"]),
    VALUES,
    st.one_of(st.just(""), EFFECTS),
)
PODS = st.builds(
    Constraints,
    resources(1),
    st.sampled_from(["", "", "n0", "other"]),
    st.lists(TOLERATIONS, max_size=3).map(tuple),
    st.lists(REQUIREMENTS, max_size=1).map(tuple),
    st.one_of(st.none(), st.lists(TERMS, max_size=2).map(tuple)),
    PORTS.map(tuple),
)


@settings(max_examples=40)
@given(st.data())
def test_table_agrees_with_filters(data: Any) -> None:
    """After any changes and queries, each row has the first rejection of its node."""
    count = data.draw(st.integers(0, 5))
    infos: list[NodeInfo | None] = [data.draw(nodes(f"n{row}")) for row in range(count)]
    table = NodeInfoTable(infos)
    for _ in range(3):
        pod = data.draw(PODS)
        expected = [UNKNOWN if info is None else _rejecting_plugin(pod, info) for info in infos]
        assert [OUTCOMES[code] for code in table.filter_codes(pod)] == expected
        assert table.pod_counts(pod.requests).tolist() == [_count_pods(pod.requests, info) for info in infos]
        for row in range(count):
            if data.draw(st.booleans()):
                infos[row] = data.draw(st.one_of(st.none(), nodes(f"n{row}")))
                table.set(row, infos[row])


def _rejecting_plugin(pod: Constraints, info: NodeInfo) -> str:
    rejection = run_filter_plugins(pod, info)
    return "" if rejection is None else rejection.plugin


def _count_pods(requests: Resource, info: NodeInfo | None) -> int:
    """Add pods to a node until one does not fit; return their number."""
    count = 0
    while info is not None and node_resources_fit(Constraints(requests), info) is None:
        info, count = add_pod(info, PodInfo(requests)), count + 1
    return count


@settings(max_examples=40)
@given(resources(1), resources(1), nodes("n"), SIZES)
def test_assumed_pods_use_resources(requests: Resource, assumed_requests: Resource, info: NodeInfo, count: int) -> None:
    """Assumed pods count as pods on the node."""
    table = NodeInfoTable([info])
    table.pod_counts(requests)
    counts = table.pod_counts(requests, [(assumed_requests, table.pod_counts(assumed_requests) * 0 + count)])
    for _ in range(count):
        info = add_pod(info, PodInfo(assumed_requests))
    assert counts.tolist() == [_count_pods(requests, info)]


def test_unused_values_are_dropped() -> None:
    """A node whose ports change all the time does not exhaust the memory."""
    table = NodeInfoTable([NodeInfo("n", allocatable=WHOLE)] * 2)
    for port in range(1, 500):
        table.set(0, NodeInfo("n", allocatable=WHOLE, ports=(HostPort(ALL_ADDRESSES, "TCP", port),)))
    pod = Constraints(ports=(HostPort(ALL_ADDRESSES, "TCP", 499),))
    assert [OUTCOMES[code] for code in table.filter_codes(pod)] == ["NodePorts", ""]
    assert len(table._ports.values) < 100  # pyright: ignore[reportPrivateUsage]


def test_pods_that_select_many_labels() -> None:
    """The work for a changed node does not grow with the number of labels that pods have selected."""
    table = NodeInfoTable([NodeInfo("n", Labels(("a",), ("1",)), allocatable=WHOLE), None])
    for number in range(2 * MAX_LABELS):
        for key, nodes in (("a", [0]), (f"job-{number}", [])):
            pod = Constraints(selector=(Requirement(key, "Exists"),))
            assert (table.filter_codes(pod) == 0).nonzero()[0].tolist() == nodes
        table.set(0, NodeInfo("n", Labels(("a",), (str(number),)), allocatable=WHOLE))
    assert len(table._labels) == MAX_LABELS  # pyright: ignore[reportPrivateUsage]
