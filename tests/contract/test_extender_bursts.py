"""Bursts of random pods on simulated kubelets of every policy: with the extender, no kubelet rejects any of them.

A loop takes the part of kube-scheduler: it filters each pod, and binds it through the API server. Kubelets observe
their pods late and in any order. Reports follow later, some of them much later. Meanwhile, pods end.
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
"""Kubelets with these policies admit every pod that fits into the totals of the node."""


def random_shape(rng: random.Random) -> PodShape:
    """Return the shape of a Guaranteed pod with one or two containers."""
    count = rng.choice((1, 1, 2))
    return PodShape(
        tuple(container(f"c{number}", rng.randint(1, 6 // count), rng.choice((0, 0, 1, 2))) for number in range(count)),
        "Guaranteed",
    )


class Arrival(NamedTuple):
    """A pod that its kubelet has not observed yet."""

    pending: PendingPod
    pod: Json
    kubelet: Kubelet


class Burst:
    """Nodes whose kubelets lag behind the API server, and whose agents lag behind the kubelets."""

    def __init__(self, world: ExtenderCluster, state: NodeState, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.kubelets = {name: Kubelet(name, state) for name in NODES}
        self.arriving: list[Arrival] = []
        self.running: list[Arrival] = []
        self.unpublished: list[Json] = []
        self.rejections: list[str] = []
        self.done = 0
        for name in NODES:
            world.add_node(name)
            self.observe(name)
        self.publish_all()

    def bind(self, pod: Json, shape: PodShape, name: str) -> None:
        self.world.bind(pod, name)
        metadata = pod["metadata"]
        pending = PendingPod(metadata["uid"], metadata["namespace"], metadata["name"], shape)
        self.arriving.append(Arrival(pending, pod, self.kubelets[name]))

    def step(self) -> None:
        """Let up to two events occur: a kubelet admits a pod, a report is published, or a pod ends."""
        deeds: list[Callable[[], None]] = [self.admit_next, self.admit_next, self.publish_next, self.end_next]
        for deed in self.rng.sample(deeds, self.rng.randint(0, 2)):
            deed()

    def admit_next(self) -> None:
        if not self.arriving:
            return
        arrival = self.arriving.pop(self.rng.randrange(len(self.arriving)))
        verdict = arrival.kubelet.decide(arrival.pending)
        if verdict.admitted:
            self.running.append(arrival)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.world.set_status(arrival.pod, phase="Running", startTime=now)
        else:
            self.rejections.append(verdict.reason)
            self.world.reject(arrival.pod, verdict.reason, verdict.message)
        self.observe(arrival.kubelet.node)

    def end_next(self) -> None:
        if self.running and self.rng.random() < 0.3:
            arrival = self.running.pop(self.rng.randrange(len(self.running)))
            arrival.kubelet.end_pod(arrival.pending.uid)
            self.world.set_status(arrival.pod, phase="Succeeded")
            self.done += 1
            self.observe(arrival.kubelet.node)

    def observe(self, name: str) -> None:
        """Record an agent's report of its node, which is published later."""
        report = self.kubelets[name].report()
        assert report.state is not None
        self.unpublished.append(build_nrt(name, report.state, report.fingerprints))

    def publish_next(self) -> None:
        if self.unpublished:
            self.world.publish(self.unpublished.pop(0))

    def publish_all(self) -> None:
        while self.arriving:
            self.admit_next()
        while self.unpublished:
            self.publish_next()


@contextlib.contextmanager
def running_burst(state: NodeState, seed: int) -> Generator[tuple[Burst, Caller]]:
    with new_cluster() as world:
        burst = Burst(world, state, random.Random(seed))
        flags = ("--stale-reports", "allow", "--direct-binding", "false")  # the loop binds every pod
        with running_extender("--api-server", world.server.url, *flags) as extender:
            extender.until(extender.ready)
            with contextlib.closing(Caller(extender)) as caller:
                yield burst, caller
            assert "ERROR" not in extender.said
            extender.close()


def random_shapes(seed: int) -> list[PodShape]:
    rng = random.Random(seed)
    return [random_shape(rng) for _ in range(BURST)]


def run_with_extender(state: NodeState, seed: int) -> tuple[list[str], int]:
    """Return the rejection reasons, and the number of pods that have run."""
    with running_burst(state, seed) as (burst, caller):
        waiting = [
            (burst.world.create(build_pod(f"p{n}", shape)), shape) for n, shape in enumerate(random_shapes(seed))
        ]
        for _ in range(3):  # kube-scheduler retries pods that fit on no node
            still: list[tuple[Json, PodShape]] = []
            for pod, shape in waiting:
                selected = caller.filter(pod, NODES).selected_node
                if selected:
                    burst.bind(pod, shape, selected)
                else:
                    still.append((pod, shape))
                burst.step()
            burst.publish_all()
            waiting = still
        return burst.rejections, burst.done + len(burst.running)


def run_without_extender(state: NodeState, seed: int) -> tuple[list[str], int]:
    """Return the same if each pod goes to a random node with sufficient totals."""
    rng = random.Random(seed)
    kubelets = [Kubelet(name, state) for name in NODES]
    rejections: list[str] = []
    running = 0
    for number, shape in enumerate(random_shapes(seed)):
        enough = [kubelet for kubelet in kubelets if _has(kubelet.state, shape)]
        if not enough:
            continue
        verdict = rng.choice(enough).decide(PendingPod(str(number), "lab", str(number), shape))
        running += verdict.admitted
        rejections += [] if verdict.admitted else [verdict.reason]
    return rejections, running


def _has(state: NodeState, shape: PodShape) -> bool:
    cpus = sum(entry.milli_cpus // 1000 for entry in shape.containers)
    gpus = sum(count for entry in shape.containers for _, count in entry.devices)
    return cpus <= state.free_cpus.bit_count() and gpus <= sum(state.device_free)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("policy", STATES)
def test_bursts(policy: str, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With the extender, no kubelet rejects a pod; on random nodes with sufficient totals, kubelets reject some."""
    rejections, running = run_with_extender(STATES[policy], seed)
    others, others_running = run_without_extender(STATES[policy], seed)
    with capsys.disabled():
        print(f"\n{policy}: {len(others)} of {BURST} rejected without the extender, {len(rejections)} with it; "  # noqa: T201
              f"{others_running} and {running} ran")  # fmt: skip
    assert rejections == []
    assert (others == []) == (policy in TOLERANT)
