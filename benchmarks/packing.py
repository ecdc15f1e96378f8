"""CPUs in use after bursts of pods, relative to an exact bound: `python -m benchmarks.packing [--bursts 200]`.

Each burst has 24 pods of 6, 7, 9 or 10 CPUs, for 4 nodes of two zones with 120 allocatable CPUs. The code of the
extender runs in process, on a virtual clock. Pods are created one after another. The simulated kube-scheduler filters
each of them once, in order. Bindings, admissions and reports follow later; admissions on one node happen in any order.
The bound, the best packing of the zones, assumes knowledge of the whole burst.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.targets import Row, show
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import NodeKind, Policies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.extender.placing.placer import PodPlacement

sys.path.insert(0, str(PROJECT / "tests"))

SIZES = (6, 7, 9, 10)
PODS = 24
NODES = 4
ZONES = {"14 and 16": (0b11, 0), "15 and 15": (0b1, 0b1)}
"""Reserved CPUs in the two zones of 16 CPUs."""
MAX_LOSS = 0.03
CREATION = 0.004
"""Seconds between the creation of two pods."""
FILTERING = 0.003
"""Seconds for a call by kube-scheduler, and for a request to the API server."""
_WATCH = 0.002
"""Seconds until the extender observes an object."""
_END = 12.0
"""Seconds after which the CPUs in use are counted."""


class BurstResult(NamedTuple):
    """The measurements of one burst."""

    used: int
    """CPUs that kubelets have allocated."""
    bound: int
    """CPUs of the best packing."""
    rejected: int
    """Pods that a kubelet rejected."""
    fitting: int
    """Waiting pods that a kubelet would admit."""
    seconds: float
    """CPU time of the extender's code."""


def fullest_packing(zones: Sequence[int], counts: Sequence[int]) -> int:
    """Return the highest number of CPUs in use, by dynamic programming over zones and numbers of served pods."""
    base = max(counts) + 1
    factors = np.array([base**kind for kind in range(len(SIZES))])
    reachable = np.zeros((1, len(SIZES)), np.int64)
    for zone in zones:
        grid = np.stack(np.meshgrid(*(np.arange(zone // size + 1) for size in SIZES)), -1).reshape(-1, len(SIZES))
        fillings = grid[grid @ np.array(SIZES) <= zone]
        sums = (reachable[:, None] + fillings[None]).reshape(-1, len(SIZES))
        sums = sums[(sums <= np.array(counts)).all(axis=1)]
        _, first = np.unique(sums @ factors, return_index=True)
        reachable = sums[first]
    return int((reachable @ np.array(SIZES)).max())


def node_kind(reserved: tuple[int, int]) -> NodeKind:
    """Return a kind with two zones of 16 CPUs without sibling threads."""
    zones = tuple((zone, ((1 << 16) - 1) << (16 * zone)) for zone in range(2))
    topology = CpuTopology(
        tuple((cpu, 1 << cpu) for cpu in range(32)), zones, zones, reserved=reserved[0] | reserved[1] << 16
    )
    return NodeKind(Policies(topology="single-numa-node", cpu="static"), (0, 1), ((10, 21), (21, 10)), topology)


class Simulation:
    """One burst on a virtual clock."""

    def __init__(self, reserved: tuple[int, int], rng: random.Random) -> None:
        from support.extender_caches import DirectCluster

        self.rng = rng
        self.cluster = DirectCluster(*(f"n{number}" for number in range(NODES)), kind=node_kind(reserved))
        self.sizes = [rng.choice(SIZES) for _ in range(PODS)]
        self.start = self.cluster.clock.now
        self.cpu_seconds = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._queue: list[str] = []
        self._busy = False

    def run(self) -> None:
        """Run the burst until nothing happens any more."""
        for number in range(PODS):
            self.after(number * CREATION, lambda number=number: self.create(number))
        for second in range(1, int(_END)):
            self.after(second, self.tick)
        clock = self.cluster.clock
        while self._events:
            at, _, act = heapq.heappop(self._events)
            clock.now = max(clock.now, at)
            act()
            if self.cluster.cache.changed.is_set():
                self.cluster.cache.changed.clear()
                self.place()

    def after(self, delay: float, act: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.cluster.clock.now + delay, self._sequence, act))

    def measured(self, act: Callable[[], float | None]) -> float | None:
        before = time.process_time()
        try:
            return act()
        finally:
            self.cpu_seconds += time.process_time() - before

    # --- events

    def create(self, number: int) -> None:
        from support.ledger_kubelets import pod_shape

        name = f"p{number}"
        shape = pod_shape((self.sizes[number], 0))
        self.after(_WATCH * self.rng.random() * 2, lambda: self.enqueue(name))
        self.cluster.create(name, shape)

    def enqueue(self, name: str) -> None:
        self._queue.append(name)
        self.schedule()

    def schedule(self) -> None:
        """Let kube-scheduler filter its next pod, if it is not busy."""
        if self._busy or not self._queue:
            return
        self._busy = True
        self.filter(self._queue.pop(0))

    def filter(self, name: str) -> None:
        delay = self.measured(lambda: self.cluster.cache.burst_delay(self.cluster.pods[name])) or 0.0
        if delay > 0:
            self.after(delay, lambda: self.filter(name))
            return
        nodes: list[str] = []
        self.measured(lambda: nodes.append(self.cluster.filter(name).node))
        if nodes[0]:
            self.after(FILTERING, lambda: self.bind(name, nodes[0]))
        self.after(FILTERING, self.end_cycle)

    def end_cycle(self) -> None:
        self._busy = False
        self.schedule()

    def bind(self, name: str, node: str) -> None:
        if name not in self.cluster.bound:
            self.cluster.bound[name] = node
            self.after(self.rng.uniform(0.005, 0.2), lambda: self.arrive(name))
            self.cluster.observe(name)

    def arrive(self, name: str) -> None:
        if self.cluster.arrive(name):
            node = self.cluster.bound[name]
            self.after(self.rng.uniform(0.02, 0.3), lambda: self.cluster.report(node))

    def place(self) -> None:
        placed = self.cluster.cache.place_waiting
        results: list[list[PodPlacement]] = []
        self.measured(lambda: results.append(placed()))
        for placement in results[0]:
            self.after(FILTERING, lambda placement=placement: self.end_binding(placement))
            self.cluster.cache.changed.set()

    def end_binding(self, placement: PodPlacement) -> None:
        self.cluster.finish(placement)
        name = placement.pod.name
        self.after(self.rng.uniform(0.005, 0.2), lambda: self.arrive(name))
        self.cluster.observe(name)

    def tick(self) -> None:
        self.measured(self.cluster.cache.tick)


def run_burst(reserved: tuple[int, int], seed: int) -> BurstResult:
    """Run one random burst."""
    from zonewise_scheduler.admission.admit import admit

    simulation = Simulation(reserved, random.Random(seed))  # noqa: S311 -- a seed
    simulation.run()
    cluster = simulation.cluster
    zones = [16 - reserved[zone].bit_count() for zone in range(2)] * NODES
    running = [name for kubelet in cluster.kubelets.values() for name in (pod.name for pod in kubelet.pods.values())]
    waiting = [name for name in cluster.pods if name not in cluster.bound]
    return BurstResult(
        sum(simulation.sizes[int(name[1:])] for name in running),
        fullest_packing(zones, [simulation.sizes.count(size) for size in SIZES]),
        len(cluster.rejected),
        sum(
            any(admit(kubelet.state, cluster.pods[name].shape).admitted for kubelet in cluster.kubelets.values())
            for name in waiting
        ),
        simulation.cpu_seconds,
    )


def main() -> int:
    """Run the bursts on both layouts and print the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursts", type=int, default=200)
    count = parser.parse_args().bursts
    rows: list[Row] = []
    for label, reserved in ZONES.items():
        results = [run_burst(reserved, seed) for seed in range(count)]
        losses = [1 - result.used / result.bound for result in results]
        mean, rejected = statistics.mean(losses), sum(result.rejected for result in results)
        fitting = sum(result.fitting for result in results)
        title = f"{count} bursts, zones of {label} CPUs"
        rows += [
            Row(f"{title}: CPUs in use, mean", f"{statistics.mean(result.used for result in results):.1f} of "
                f"{statistics.mean(result.bound for result in results):.1f}"),
            Row(f"{title}: loss, mean", f"{mean:.2%}", f"<= {MAX_LOSS:.0%}", mean <= MAX_LOSS),
            Row(f"{title}: loss, worst", f"{max(losses):.1%}"),
            Row(f"{title}: pods rejected by kubelets", str(rejected), "0", rejected == 0),
            Row(f"{title}: pods left waiting that fit", str(fitting), "0", fitting == 0),
            Row(f"{title}: CPU time of a burst, mean", f"{statistics.mean(r.seconds for r in results) * 1000:.0f} ms"),
        ]  # fmt: skip
    return show(rows)


if __name__ == "__main__":
    raise SystemExit(main())
