"""Sums of the requests of a node's pods, compared with sums computed from scratch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.state.node_infos import NodeInfos
from zonewise_scheduler.nodes.node.host_ports import HostPort
from zonewise_scheduler.nodes.node.node_info import NodeInfo, PodInfo, add_pod

NODES = ("a", "b")
PODS = ("p", "q", "r")


def pod_info(cpus: int) -> PodInfo:
    ports = (HostPort("0.0.0.0", "TCP", 80 + cpus),) if cpus % 2 else ()  # noqa: S104 -- a value of the API
    return PodInfo(Resource(1000 * cpus, 0, 1, 0, (("example.com/gpu", cpus),)), ports)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(PODS), st.sampled_from(NODES), st.integers(1, 4)),
        st.tuples(st.just("remove"), st.sampled_from(PODS), st.just(""), st.just(0)),
        st.tuples(st.just("node"), st.just(""), st.sampled_from(NODES), st.just(0)),
        st.tuples(st.just("no node"), st.just(""), st.sampled_from(NODES), st.just(0)),
    ),
    max_size=30,
)


@given(EVENTS)
def test_sums(events: list[tuple[str, str, str, int]]) -> None:
    """After any order of events, a node counts exactly the pods on it."""
    infos = NodeInfos()
    nodes: set[str] = set()
    pods: dict[str, tuple[str, int]] = {}
    for event, pod, node, cpus in events:
        match event:
            case "set":
                infos.set_pod(pod, node, pod_info(cpus))
                pods[pod] = node, cpus
            case "remove":
                infos.remove_pod(pod)
                pods.pop(pod, None)
            case "node":
                infos.set_node(NodeInfo(node))
                nodes.add(node)
            case _:
                infos.remove_node(node)
                nodes.discard(node)
    assert set(infos) == nodes
    for name in NODES:
        expected = NodeInfo(name)
        for node, cpus in pods.values():
            expected = add_pod(expected, pod_info(cpus)) if node == name else expected
        assert infos.get(name) == (expected if name in nodes else None)
    assert {pod: infos.node_of(pod) for pod in PODS} == {pod: pods.get(pod, (None, 0))[0] for pod in PODS}


def test_changed_nodes() -> None:
    """Each changed node is returned once; a node that is set again without a change is not returned."""
    infos = NodeInfos()
    infos.set_node(NodeInfo("a"))
    assert infos.take_changed() == ["a"]
    infos.set_node(NodeInfo("a"))
    infos.set_pod("p", "b", pod_info(1))
    assert infos.take_changed() == []
    infos.set_pod("q", "a", pod_info(1))
    infos.set_pod("q", "a", pod_info(1))
    assert infos.take_changed() == ["a"]
    infos.set_node(NodeInfo("a"))
    assert infos.take_changed() == []
