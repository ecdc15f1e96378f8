"""Bursts of random pods on simulated kubelets of every policy: with the extender none of them is refused.

kube-scheduler is a loop here: it asks for each pod, and binds it through the API server. Kubelets see their pods in any
order, late; reports come later still, some of them not for a long while; pods end meanwhile.
"""

from __future__ import annotations

import contextlib
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.extender import Caller, build_nrt, build_pod, new_cluster, running_extender
from support.fit_nodes import node
from support.ledger_kubelets import GPU, SINGLE, Kubelet, container, node_kind
from zonewise_scheduler.admission.node import Policies, idle_node
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from support.extender import ExtenderCluster
    from zonewise_scheduler.admission.node import NodeState

Json = dict[str, Any]

NODES = ("a", "b", "c", "d")
BURST = 48
STATES: dict[str, NodeState] = {
    "single-numa-node, container": idle_node(node_kind(SINGLE)),
    "single-numa-node, pod": idle_node(node_kind(SINGLE._replace(scope="pod"))),
    "restricted, container": idle_node(node_kind(Policies(topology="restricted", cpu="static"))),
    "restricted, pod": idle_node(node_kind(Policies(topology="restricted", scope="pod", cpu="static"))),
    "best-effort": idle_node(node_kind(Policies(topology="best-effort", cpu="static"))),
    "none, full cores": node(2, 4, devices={GPU: {1: 2, 2: 2}}, cpu="static", full_cores=True),
}
TOLERANT = ("best-effort",)
"""Their kubelets refuse nothing of what a node has in all."""


def random_shape(chance: random.Random) -> PodShape:
    """A Guaranteed pod of one or two containers."""
    count = chance.choice((1, 1, 2))
    return PodShape(
        tuple(
            container(f"c{number}", chance.randint(1, 6 // count), chance.choice((0, 0, 1, 2)))
            for number in range(count)
        ),
        "Guaranteed",
    )


class Arrival(NamedTuple):
    """A pod on its way to a kubelet."""

    promise: PendingPod
    pod: Json
    kubelet: Kubelet


class Stage:
    """Nodes whose kubelets are behind, and whose agents are behind these."""

    def __init__(self, world: ExtenderCluster, state: NodeState, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.kubelets = {name: Kubelet(name, state) for name in NODES}
        self.arriving: list[Arrival] = []
        self.running: list[Arrival] = []
        self.unpublished: list[Json] = []
        self.refused: list[str] = []
        self.done = 0
        for name in NODES:
            world.add_node(name)
            self.look(name)
        self.publish_all()

    def bind(self, pod: Json, shape: PodShape, name: str) -> None:
        self.world.bind(pod, name)
        metadata = pod["metadata"]
        promise = PendingPod(metadata["uid"], metadata["namespace"], metadata["name"], shape)
        self.arriving.append(Arrival(promise, pod, self.kubelets[name]))

    def something_happens(self) -> None:
        """Let a kubelet see a pod, an agent look, a report be published, a pod end; or nothing of it."""
        deeds: list[Callable[[], None]] = [self.see_one, self.see_one, self.publish_one, self.end_one]
        for deed in self.chance.sample(deeds, self.chance.randint(0, 2)):
            deed()

    def see_one(self) -> None:
        if not self.arriving:
            return
        arrival = self.arriving.pop(self.chance.randrange(len(self.arriving)))
        verdict = arrival.kubelet.decide(arrival.promise)
        if verdict.admitted:
            self.running.append(arrival)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.world.set_status(arrival.pod, phase="Running", startTime=now)
        else:
            self.refused.append(verdict.reason)
            self.world.reject(arrival.pod, verdict.reason, verdict.message)
        self.look(arrival.kubelet.node)

    def end_one(self) -> None:
        if self.running and self.chance.random() < 0.3:
            arrival = self.running.pop(self.chance.randrange(len(self.running)))
            arrival.kubelet.end_pod(arrival.promise.uid)
            self.world.set_status(arrival.pod, phase="Succeeded")
            self.done += 1
            self.look(arrival.kubelet.node)

    def look(self, name: str) -> None:
        """Have an agent look at its node; what it has seen is published later."""
        report = self.kubelets[name].report()
        assert report.state is not None
        self.unpublished.append(build_nrt(name, report.state, report.fingerprints))

    def publish_one(self) -> None:
        if self.unpublished:
            self.world.publish(self.unpublished.pop(0))

    def publish_all(self) -> None:
        while self.arriving:
            self.see_one()
        while self.unpublished:
            self.publish_one()


@contextlib.contextmanager
def staged(state: NodeState, seed: int) -> Generator[tuple[Stage, Caller]]:
    with new_cluster() as world:
        stage = Stage(world, state, random.Random(seed))
        with running_extender("--api-server", world.server.url, "--stale-reports", "allow") as extender:
            extender.until(extender.ready)
            with contextlib.closing(Caller(extender)) as caller:
                yield stage, caller
            assert "ERROR" not in extender.said
            extender.close()


def shapes_of(seed: int) -> list[PodShape]:
    chance = random.Random(seed)
    return [random_shape(chance) for _ in range(BURST)]


def with_the_extender(state: NodeState, seed: int) -> tuple[list[str], int]:
    """Return why kubelets refused pods, and how many pods have run."""
    with staged(state, seed) as (stage, caller):
        waiting = [(stage.world.create(build_pod(f"p{n}", shape)), shape) for n, shape in enumerate(shapes_of(seed))]
        for _ in range(3):  # kube-scheduler tries again those for which there was no node
            still: list[tuple[Json, PodShape]] = []
            for pod, shape in waiting:
                chosen = caller.filter(pod, NODES).selected_node
                if chosen:
                    stage.bind(pod, shape, chosen)
                else:
                    still.append((pod, shape))
                stage.something_happens()
            stage.publish_all()
            waiting = still
        return stage.refused, stage.done + len(stage.running)


def without(state: NodeState, seed: int) -> tuple[list[str], int]:
    """Return the same where each pod goes to a random node that has enough of everything in all."""
    chance = random.Random(seed)
    kubelets = [Kubelet(name, state) for name in NODES]
    refused: list[str] = []
    running = 0
    for number, shape in enumerate(shapes_of(seed)):
        enough = [kubelet for kubelet in kubelets if _has(kubelet.state, shape)]
        if not enough:
            continue
        verdict = chance.choice(enough).decide(PendingPod(str(number), "lab", str(number), shape))
        running += verdict.admitted
        refused += [] if verdict.admitted else [verdict.reason]
    return refused, running


def _has(state: NodeState, shape: PodShape) -> bool:
    cpus = sum(one.milli_cpus // 1000 for one in shape.containers)
    gpus = sum(count for one in shape.containers for _, count in one.devices)
    return cpus <= state.free_cpus.bit_count() and gpus <= sum(state.device_free)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", STATES)
def test_bursts(policy: str, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With us no kubelet refuses a pod; where each is sent to a random node with enough in all, some are refused."""
    refused, running = with_the_extender(STATES[policy], seed)
    others, others_running = without(STATES[policy], seed)
    with capsys.disabled():
        print(f"\n{policy}: {len(others)} of {BURST} refused without us, {len(refused)} with; "  # noqa: T201
              f"{others_running} and {running} ran")  # fmt: skip
    assert refused == []
    assert (others == []) == (policy in TOLERANT)
