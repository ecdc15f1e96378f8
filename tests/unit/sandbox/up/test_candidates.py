"""The nodes on which a pod may run, by the nodes' totals."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.podrunner.types import RunnerMetadata, RunnerNode, RunnerNodeStatus, RunnerPod
from zonewise_sandbox.up.candidates import NodeTotals

CPUS = 4


def node(name: str, *, cpus: int = CPUS, labels: dict[str, str] | None = None, taint: str = "") -> RunnerNode:
    spec: dict[str, Any] = {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {}
    metadata = RunnerMetadata(name, f"uid-{name}", labels=labels or {})
    return RunnerNode(metadata, spec, RunnerNodeStatus({"cpu": str(cpus), "pods": "110"}))


def pod(name: str, cpus: int = 1, **spec: Any) -> RunnerPod:
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpus)}}}
    return RunnerPod(RunnerMetadata(name, f"uid-{name}", "default"), {"containers": [container], **spec})


def totals(*nodes: RunnerNode) -> NodeTotals:
    result = NodeTotals()
    for each in nodes:
        result.set_node(each)
    return result


def pinned(name: str) -> dict[str, Any]:
    requirement = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_selection() -> None:
    nodes = totals(node("a"), node("b", labels={"x": "1"}), node("c", taint="t"))
    assert nodes.candidates(pod("p")) == ["a", "b"]
    assert nodes.candidates(pod("p", nodeSelector={"x": "1"})) == ["b"]
    assert nodes.candidates(pod("p", tolerations=[{"operator": "Exists"}])) == ["a", "b", "c"]
    assert nodes.candidates(pod("p", affinity=pinned("a"))) == ["a"]
    assert nodes.candidates(pod("p", affinity=pinned("z"))) == []
    assert nodes.candidates(pod("p", affinity=pinned("c"))) == []


def test_a_node_that_changes() -> None:
    nodes = totals(node("a"))
    nodes.hold(pod("p", 3), "a")
    assert nodes.candidates(pod("q", 2)) == []
    nodes.set_node(node("a", cpus=8))
    assert nodes.candidates(pod("q", 5)) == ["a"]
    assert nodes.candidates(pod("q", 6)) == []
    nodes.set_node(node("a", cpus=8, taint="t"))
    assert nodes.candidates(pod("q", 1)) == []
    nodes.remove_node("a")
    assert (nodes.count, nodes.candidates(pod("q", 1))) == (0, [])
    assert nodes.release(("default", "p"))
    assert not nodes.release(("default", "p"))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.integers(0, 4), st.booleans()), max_size=30))
def test_a_pod_fits_where_the_others_leave_enough(steps: list[tuple[int, str, int, bool]]) -> None:
    """After any sequence of held and released pods, a node's free amounts are what the holders leave."""
    nodes = totals(node("a"), node("b"))
    held: dict[str, tuple[str, int]] = {}
    for number, name, cpus, holds in steps:
        key = f"p{number}"
        if holds and key not in held:
            held[key] = name, cpus
            nodes.hold(pod(key, cpus), name)
        elif not holds:
            assert nodes.release(("default", key)) == (held.pop(key, None) is not None)
    for wanted in range(CPUS + 1):
        free = {name: CPUS - sum(cpus for where, cpus in held.values() if where == name) for name in "ab"}
        expected = [name for name in "ab" if wanted == 0 or free[name] >= wanted]
        assert nodes.candidates(pod("new", wanted)) == expected
