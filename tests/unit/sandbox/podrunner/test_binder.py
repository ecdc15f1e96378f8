"""The binder: no node is overcommitted, and no pod that fits waits."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.podrunner.binder import Binder
from zonewise_sandbox.podrunner.types import RunnerNode, RunnerPod


def node(name: str, cpu: int = 4, labels: dict[str, str] | None = None, **spec: Any) -> RunnerNode:
    metadata = {"name": name, "uid": name, "labels": labels or {}}
    status = {"allocatable": {"cpu": str(cpu), "pods": "10"}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, RunnerNode)


def pod(name: str, cpu: int = 1, **spec: Any) -> RunnerPod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]
    metadata = {"name": name, "uid": name, "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": containers, **spec}}, RunnerPod)


def pinned(name: str) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def binder(*nodes: RunnerNode) -> Binder:
    made = Binder()
    for each in nodes:
        made.set_node(each)
    return made


def test_labels_names_and_taints_select() -> None:
    tainted = node("c", labels={"a": "b"}, taints=[{"key": "t", "effect": "NoSchedule"}])
    made = binder(node("a"), node("b", labels={"a": "b"}), tainted, node("d", unschedulable=True))
    assert made.place(pod("1", nodeSelector={"a": "b"})) == "b"
    assert made.place(pod("2", 4, **pinned("c"))) == ""
    assert made.place(pod("3", 4, tolerations=[{"key": "t", "operator": "Exists"}], **pinned("c"))) == "c"
    assert made.place(pod("4", **pinned("d"))) == ""


def test_a_pod_waits_for_free_resources_and_for_nodes() -> None:
    made = binder(node("a", cpu=1))
    assert made.place(pod("1")) == "a"
    assert made.place(pod("2")) == made.place(pod("3", **pinned("b"))) == ""
    assert made.waiting == 2
    got = [made.set_node(node("b", cpu=2)), made.release(("default", "1"))]
    assert sorted(each.metadata.name for placed in got for each, _ in placed) == ["2", "3"]
    assert made.waiting == 0


def test_pods_of_other_binders_count() -> None:
    made = binder(node("a", cpu=2))
    made.hold(pod("1", 2), "a")
    assert made.place(pod("2")) == ""
    assert [each.metadata.name for each, _ in made.release(("default", "1"))] == ["2"]


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 3)), max_size=40)


@given(STEPS)
def test_nothing_is_overcommitted_and_no_pod_that_fits_waits(steps: list[tuple[bool, int, int]]) -> None:
    made = binder(node("a"), node("b", cpu=3))
    places: dict[str, tuple[str, int]] = {}
    waiting: dict[str, int] = {}
    for comes, number, cpu in steps:
        name = f"p{number}"
        if comes and name not in places and name not in waiting:
            chosen = made.place(pod(name, cpu))
            if chosen:
                places[name] = chosen, cpu
            else:
                waiting[name] = cpu
        elif not comes:
            waiting.pop(name, None)
            places.pop(name, None)
            for placed, chosen in made.release(("default", name)):
                places[placed.metadata.name] = chosen, waiting.pop(placed.metadata.name)
        for host, size in (("a", 4), ("b", 3)):
            used = sum(cpu for chosen, cpu in places.values() if chosen == host)
            assert made.free(host)["cpu"] == 1000 * (size - used) >= 0
            assert all(1000 * cpu > made.free(host)["cpu"] for cpu in waiting.values())
