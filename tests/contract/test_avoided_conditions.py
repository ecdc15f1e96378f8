"""Gangs avoid suspect nodes, by the condition, the taint or the withheld devices of a fault, in extender and queue."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.extender import NAMESPACE, PODS, Caller, ExtenderCluster, new_cluster, plain_nrt, running_extender
from support.live_cluster import LiveCluster, simulated_live_cluster
from support.pod_groups import POD_GROUP_CRD
from support.published_faults import FAULT_REASON, published_fault
from support.waiting import eventually
from zonewise_common.kube.config import Config

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from support.extender import Extender
Json = dict[str, Any]
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"


def fault(url: str, node: str, *, taint: bool = False) -> contextlib.AbstractContextManager[None]:
    return published_fault(Config.from_url(url), node, taint=taint)


def condition(node: str, status: str) -> Json:
    return {"type": "GPUHardwareFault", "status": status, "reason": "XID79", "message": node}


# --- the extender


def gang(name: str, size: int) -> list[Json]:
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"minMember": size},
    }  # fmt: skip
    return [group, *(pod(f"{name}-{i}", {"scheduling.x-k8s.io/pod-group": name}) for i in range(size))]


def pod(name: str, labels: Json | None = None) -> Json:
    amounts = {"cpu": "4", "memory": "1Gi"}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}},
            "spec": {"containers": [container]}}  # fmt: skip


@pytest.fixture
def world() -> Iterator[ExtenderCluster]:
    """Yield three nodes, each with one zone of 8 CPUs, which fits two pods."""
    with new_cluster() as world:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        world.api.post(definitions, yaml.safe_load(POD_GROUP_CRD.read_text())).ok()
        for name in ("a", "b", "c"):
            world.add_node(name)
            world.publish(plain_nrt(name, (8,)))
        yield world


@contextlib.contextmanager
def extender(world: ExtenderCluster, *flags: str) -> Generator[Extender]:
    with running_extender("--api-server", world.server.url, *flags) as extender:
        extender.until(extender.ready)
        eventually(lambda: "podgroups of scheduling.x-k8s.io/v1alpha1: served=yes" in extender.said)
        yield extender
        extender.close()


def start_gang(world: ExtenderCluster, name: str, size: int) -> list[Json]:
    group, *pods = gang(name, size)
    world.api.post(GROUPS, group).ok()
    return [world.create(one) for one in pods]


def nodes_of(world: ExtenderCluster, pods: list[Json]) -> list[str]:
    return [world.pod(one["metadata"]["name"])["spec"].get("nodeName", "") for one in pods]


def bind(world: ExtenderCluster, one: Json, node: str) -> None:
    """Bind a pod as kube-scheduler does, unless the extender was faster."""
    name = one["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    assert world.api.post(f"{PODS}/{name}/binding", body).status in {201, 409}


def is_started(world: ExtenderCluster, caller: Caller, pods: list[Json]) -> bool:
    """Call the extender for the first pod, as kube-scheduler does, until it has a node; return whether all have one.

    The extender binds the others itself.
    """
    if not nodes_of(world, pods[:1])[0] and (selected := caller.filter(pods[0], ["a", "b", "c"]).selected_node):
        bind(world, pods[0], selected)
    return all(nodes_of(world, pods))


def reasons(caller: Caller, pods: list[Json]) -> str:
    return " ".join(str(caller.filter(one, ["a", "b", "c"]).reasons) for one in pods)


def test_a_gang_avoids_a_suspect_and_returns_to_it(world: ExtenderCluster) -> None:
    with (
        extender(world, "--avoid-conditions", "hardware") as program,
        contextlib.closing(Caller(program)) as caller,
        fault(world.server.url, "a"),
    ):
        small = start_gang(world, "small", 4)
        eventually(lambda: is_started(world, caller, small))
        assert set(nodes_of(world, small)) == {"b", "c"}
        large = start_gang(world, "large", 2)
        expected = f"a: {FAULT_REASON}"
        eventually(lambda: expected in reasons(caller, large))
        single = world.create(pod("single"))
        eventually(lambda: is_started(world, caller, [single]))
        assert nodes_of(world, [single]) == ["a"]
        world.delete(single)
        assert not any(nodes_of(world, large))
        world.api.patch("/api/v1/nodes/a/status", {"status": {"conditions": [condition("a", "False")]}}).ok()
        eventually(lambda: is_started(world, caller, large))
        assert nodes_of(world, large) == ["a", "a"]


@pytest.mark.parametrize("by", ["taint", "withhold"])
def test_a_taint_or_withheld_devices_keep_a_gang_off(world: ExtenderCluster, by: str) -> None:
    """Neither requires a setting of the scheduler."""
    with extender(world) as program, contextlib.closing(Caller(program)) as caller:
        with contextlib.ExitStack() as stack:
            if by == "taint":
                stack.enter_context(fault(world.server.url, "a", taint=True))
            else:
                world.publish(plain_nrt("a", (0,), size=8))
            small = start_gang(world, "small", 4)
            eventually(lambda: is_started(world, caller, small))
            assert set(nodes_of(world, small)) == {"b", "c"}
            large = start_gang(world, "large", 2)
            eventually(lambda: "large does not fit" in reasons(caller, large))
        if by == "withhold":
            world.publish(plain_nrt("a", (8,)))
        eventually(lambda: is_started(world, caller, large))
        assert nodes_of(world, large) == ["a", "a"]


# --- the queue


@pytest.fixture
def live() -> Iterator[LiveCluster]:
    with simulated_live_cluster() as live:
        live.add_nodes(3)
        live.add_queue(24, topology=True)
        yield live


def run_gangs(live: LiveCluster, *flags: str, taint: bool = False, expected: str) -> None:
    """Check that one gang starts on healthy nodes, and that another waits for the suspect until the fault is over."""

    def nodes(name: str) -> set[str]:
        return {one["spec"].get("nodeName", "") for one in live.running_pods(name)}

    def waits() -> bool:
        messages = [
            each.get("message", "")
            for workload in live.workloads()
            for each in workload.get("status", {}).get("conditions", ())
        ]
        return any(expected in message for message in messages)

    with live.controller(*flags):
        with fault(live.flags[1], "node-0", taint=taint):
            live.submit("small", 4, pods=4)
            eventually(lambda: nodes("small") == {"node-1", "node-2"})
            live.submit("large", 4, pods=2)
            eventually(waits)
            assert live.is_held("large")
        eventually(lambda: nodes("large") == {"node-0"})


def test_the_queue_keeps_gangs_off_a_suspect(live: LiveCluster) -> None:
    run_gangs(live, "--avoid-conditions", "hardware", expected=f'avoided "node-0: {FAULT_REASON}": 1')


@pytest.mark.long
def test_the_queue_keeps_gangs_off_a_tainted_node(live: LiveCluster) -> None:
    run_gangs(live, taint=True, expected='taint "zonewise.dev/hardware-fault=failed:NoSchedule": 1')


def test_a_pod_that_its_job_restarts_leaves_a_suspect(live: LiveCluster) -> None:
    """The other pod of the gang keeps running, and the end of the fault does not change the placement."""

    def node_of() -> dict[str, str]:
        running = live.running_pods("gang")
        return {
            one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: one["spec"]["nodeName"]
            for one in running
        }

    with live.controller("--avoid-conditions", "hardware"):
        live.submit("gang", 8, pods=2, backoffLimit=2)
        eventually(lambda: len(node_of()) == 2)
        before = node_of()
        [first] = [one for one in live.running_pods("gang") if one["spec"]["nodeName"] == before["0"]]
        [free] = {"node-0", "node-1", "node-2"} - set(before.values())
        with fault(live.flags[1], before["0"]):
            live.fail_pod(first, 1)
            eventually(lambda: node_of() == {"0": free, "1": before["1"]})
            eventually(lambda: not live.workloads()[0]["status"].get("unhealthyNodes"))
        assert not any(
            each["type"] == "Evicted" and each["status"] == "True"
            for each in live.workloads()[0]["status"]["conditions"]
        )


@pytest.mark.long
def test_a_gang_whose_pod_has_no_other_node_is_evicted(live: LiveCluster) -> None:
    """The whole gang is requeued, and starts when the fault is over."""

    def evictions() -> list[str]:
        [workload] = live.workloads()
        return [each["reason"] for each in workload["status"]["conditions"] if each["type"] == "Evicted"]

    with live.controller("--avoid-conditions", "hardware"):
        live.submit("gang", 8, pods=3, backoffLimit=9)
        eventually(lambda: len(live.running_pods("gang")) == 3)
        first = live.running_pods("gang")[0]
        with fault(live.flags[1], first["spec"]["nodeName"]):
            live.fail_pod(first, 1)
            eventually(lambda: bool(evictions()) and live.is_held("gang"))
            assert evictions() == ["NodeFailures"]
        eventually(lambda: len(live.running_pods("gang")) == 3)


def test_a_single_pod_of_the_queue_may_use_a_suspect(live: LiveCluster) -> None:
    with live.controller("--avoid-conditions", "hardware"), fault(live.flags[1], "node-0"):
        for number in range(6):
            live.submit(f"job-{number}", 4)
        eventually(lambda: all(live.running_pods(f"job-{number}") for number in range(6)))
