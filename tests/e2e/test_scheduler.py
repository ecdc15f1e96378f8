"""Real kube-scheduler and kubelets, with and without our extender, under the same bursts of pods."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.cluster import Cluster, extending, running_cluster, scheduling, skip_reason
from support.e2e.plugin import Device
from support.e2e.pods import GPU, container, init, pod, sidecar
from support.e2e.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.node import Node

pytestmark = [pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason())), pytest.mark.timeout(300)]

Object = dict[str, Any]

KUBELETS = {
    "single-container": Settings(topology="single-numa-node", reconcile="1s"),
    "single-pod": Settings(topology="single-numa-node", scope="pod", reconcile="1s"),
    "restricted": Settings(topology="restricted", reconcile="1s"),
    "best-effort": Settings(topology="best-effort", memory="None", reconcile="1s"),
    "cores": Settings(topology="none", cpu_options={"full-pcpus-only": "true"}, memory="None", reconcile="1s"),
}
REJECTION_REASONS = ("TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError")


def with_gpus(node: Node) -> None:
    node.plug(GPU, [Device(f"g{number}", (number // 2,)) for number in range(4)])


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    with running_cluster(KUBELETS, with_gpus) as made:
        yield made


def random_pod(name: str, chance: random.Random) -> Object:
    """Return a Guaranteed pod with one or two containers, and possibly an init container or a sidecar."""

    def resources(most: int) -> dict[str, str]:
        made = {"cpu": str(chance.randint(1, most)), "memory": f"{chance.randint(1, 40)}Gi"}
        return made | ({GPU: str(chance.randint(1, 2))} if chance.random() < 0.3 else {})

    containers = [container(f"c{number}", **resources(9)) for number in range(chance.choice((1, 1, 2)))]
    first = chance.choice((init, sidecar, None, None))
    inits = (first("first", **resources(4)),) if first is not None else ()
    return pod(name, *containers, inits=inits, restart="Never")


def at_rest(obj: Object) -> bool:
    """Return whether a pod runs, was rejected by its kubelet, or is unschedulable."""
    status = obj["status"]
    waits = any(obj.get("reason") == "Unschedulable" for obj in status.get("conditions", ()))
    return status.get("phase") in ("Running", "Succeeded", "Failed") or waits


def rejected(pods: dict[str, Object]) -> dict[str, str]:
    """Return the reason for each pod that its kubelet rejected."""
    reasons = {name: obj["status"].get("reason", "") for name, obj in pods.items()}
    return {name: reason for name, reason in reasons.items() if reason in REJECTION_REASONS}


def burst(cluster: Cluster, pods: list[Object]) -> dict[str, Object]:
    """Create all pods at once, wait until they are at rest, and clear the cluster; return the pods."""
    cluster.create(pods)
    observed = cluster.settled([obj["metadata"]["name"] for obj in pods], at_rest)
    cluster.clear()
    return observed


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_random_bursts(cluster: Cluster, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With the extender, no kubelet rejects a pod; without it, some are rejected. The numbers are printed."""
    chance = random.Random(seed)
    pods = [random_pod(f"p{number}", chance) for number in range(40)]
    with scheduling(cluster):
        without_extender = burst(cluster, pods)
    with extending(cluster) as extender, scheduling(cluster, extender=extender):
        with_extender = burst(cluster, pods)
        log_text = extender.said
    assert rejected(with_extender) == {}, log_text
    assert rejected(without_extender) != {}
    running = [
        sum(obj["status"]["phase"] == "Running" for obj in observed.values())
        for observed in (without_extender, with_extender)
    ]
    with capsys.disabled():
        count = len(rejected(without_extender))
        print(f"\nburst {seed}: {count} of {len(pods)} rejected without the extender, 0 with it; "  # noqa: T201
              f"running {running[0]} and {running[1]}")  # fmt: skip


def test_three_pods_at_once(cluster: Cluster) -> None:
    """Three simultaneous pods each need most of a zone on a node with two zones: two run. The third gets a reason, and
    runs as soon as one of them has ended. With the stock scheduler, the kubelet rejects the third.
    """
    pods = [pod(f"t{number}", container(cpu="9", memory="1Gi"), restart="Never") for number in range(3)]
    for obj in pods:
        obj["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "single-container"}
    with scheduling(cluster):
        assert list(rejected(burst(cluster, pods)).values()) == ["TopologyAffinityError"]
    with extending(cluster) as extender, scheduling(cluster, extender=extender):
        cluster.create(pods)
        observed = cluster.settled([obj["metadata"]["name"] for obj in pods], at_rest)
        assert rejected(observed) == {}
        [waiting] = [name for name, obj in observed.items() if obj["status"]["phase"] == "Pending"]
        [message] = [
            obj["message"] for obj in observed[waiting]["status"]["conditions"] if obj["type"] == "PodScheduled"
        ]
        assert "1 node(s) would reject it: needs 9 CPUs in one zone" in message
        cluster.delete(next(name for name in observed if name != waiting))
        cluster.settled([waiting], lambda obj: obj["status"]["phase"] == "Running")
        cluster.clear()
