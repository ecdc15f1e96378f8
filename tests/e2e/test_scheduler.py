"""The proof: kube-scheduler and kubelets, all real, with our extender and without it, under the same bursts of pods."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.cluster import Cluster, extending, running_cluster, scheduling, why_not
from support.e2e.plugin import Device
from support.e2e.pods import GPU, container, init, pod, sidecar
from support.e2e.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.node import Node

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.timeout(300)]

Object = dict[str, Any]

KUBELETS = {
    "single-container": Settings(topology="single-numa-node", reconcile="1s"),
    "single-pod": Settings(topology="single-numa-node", scope="pod", reconcile="1s"),
    "restricted": Settings(topology="restricted", reconcile="1s"),
    "best-effort": Settings(topology="best-effort", memory="None", reconcile="1s"),
    "cores": Settings(topology="none", cpu_options={"full-pcpus-only": "true"}, memory="None", reconcile="1s"),
}
REFUSALS = ("TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError")


def with_gpus(node: Node) -> None:
    node.plug(GPU, [Device(f"g{number}", (number // 2,)) for number in range(4)])


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    with running_cluster(KUBELETS, with_gpus) as made:
        yield made


def random_pod(name: str, chance: random.Random) -> Object:
    """A Guaranteed pod of one or two containers, perhaps with one that runs before or beside them."""

    def resources(most: int) -> dict[str, str]:
        made = {"cpu": str(chance.randint(1, most)), "memory": f"{chance.randint(1, 40)}Gi"}
        return made | ({GPU: str(chance.randint(1, 2))} if chance.random() < 0.3 else {})

    containers = [container(f"c{number}", **resources(9)) for number in range(chance.choice((1, 1, 2)))]
    first = chance.choice((init, sidecar, None, None))
    inits = (first("first", **resources(4)),) if first is not None else ()
    return pod(name, *containers, inits=inits, restart="Never")


def at_rest(one: Object) -> bool:
    """Tell whether a pod runs, was refused by its kubelet, or has heard that no node takes it."""
    status = one["status"]
    waits = any(condition.get("reason") == "Unschedulable" for condition in status.get("conditions", ()))
    return status.get("phase") in ("Running", "Succeeded", "Failed") or waits


def refused(pods: dict[str, Object]) -> dict[str, str]:
    """By pod, why its kubelet refused it."""
    reasons = {name: one["status"].get("reason", "") for name, one in pods.items()}
    return {name: reason for name, reason in reasons.items() if reason in REFUSALS}


def burst(cluster: Cluster, pods: list[Object]) -> dict[str, Object]:
    """Create all pods at once, and return them as they are when they are at rest; then clear the cluster."""
    cluster.create(pods)
    found = cluster.settled([one["metadata"]["name"] for one in pods], at_rest)
    cluster.clear()
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_random_bursts(cluster: Cluster, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With us no kubelet refuses a pod; without us, of the same burst, some do. And with us not fewer of them run."""
    chance = random.Random(seed)
    pods = [random_pod(f"p{number}", chance) for number in range(40)]
    with scheduling(cluster):
        without = burst(cluster, pods)
    with extending(cluster) as extender, scheduling(cluster, extender=extender):
        with_us = burst(cluster, pods)
        said = extender.said
    assert refused(with_us) == {}, said
    assert refused(without) != {}
    running = [sum(one["status"]["phase"] == "Running" for one in found.values()) for found in (without, with_us)]
    with capsys.disabled():
        print(f"\nburst {seed}: {len(refused(without))} of {len(pods)} refused without us, 0 with us; "  # noqa: T201
              f"running {running[0]} and {running[1]}")  # fmt: skip


def test_three_pods_at_once(cluster: Cluster) -> None:
    """Three pods in one burst, each wanting most of a zone of a node with two: two run, the third hears why it waits,
    and runs as soon as one of them has gone. The stock scheduler lets the kubelet refuse the third.
    """
    pods = [pod(f"t{number}", container(cpu="9", memory="1Gi"), restart="Never") for number in range(3)]
    for one in pods:
        one["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "single-container"}
    with scheduling(cluster):
        assert list(refused(burst(cluster, pods)).values()) == ["TopologyAffinityError"]
    with extending(cluster) as extender, scheduling(cluster, extender=extender):
        cluster.create(pods)
        found = cluster.settled([one["metadata"]["name"] for one in pods], at_rest)
        assert refused(found) == {}
        [waiting] = [name for name, one in found.items() if one["status"]["phase"] == "Pending"]
        [told] = [one["message"] for one in found[waiting]["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert "1 node(s) would reject it: needs 9 CPUs in one zone" in told
        cluster.delete(next(name for name in found if name != waiting))
        cluster.settled([waiting], lambda one: one["status"]["phase"] == "Running")
        cluster.clear()
