"""The whole system under churn and faults, on real programs: `python -m benchmarks.soak [--minutes 20] [--seed 1]`.

It runs an API server, etcd, kube-scheduler, three kubelets with their agents, and the extender. Every second, a pod is
created and another is deleted. Parts are killed or paused at random, and hostile clients attack each of our ports. The
soak counts:

- pods that a kubelet rejects at admission;
- pods that wait although they fit, for longer than 5 s while all parts are up;
- probes that get no response while their program runs;
- tracebacks in the logs of agents and extender;
- the growth of memory, threads and file descriptors of agents and extender.

The binaries of kube-apiserver, etcd, kubelet and kube-scheduler are needed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.support.soak_clients import HostileClients
from benchmarks.support.soak_cluster import SoakCluster, running_soak_cluster
from benchmarks.support.soak_loop import SoakLoop
from benchmarks.support.targets import Row, show, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.support.soak_cluster import Part

Json = dict[str, Any]

NODES = 3
PODS = 26
MAX_CPUS = 16
MAX_WAIT = 5.0
_TERMINAL = ("Succeeded", "Failed")
_NO_PORT = 1
"""A port on which nothing listens: the program is restarting."""


class Counts(NamedTuple):
    """The counts of pods so far."""

    created: int = 0
    rejected: tuple[str, ...] = ()
    """Name and reason for each pod that a kubelet rejected."""
    fitting: int = 0
    """How often a waiting pod was observed that fits."""
    longest_wait: float = 0.0
    """Longest time in seconds that a pod which fits has waited."""
    late: tuple[str, ...] = ()
    """Pods that fit but waited too long, with the node."""


class _SoakedPods:
    """Pods that come and go on a cluster; implements SoakedSystem."""

    servers = frozenset({"etcd", "kube-apiserver"})

    def __init__(self, soaked: SoakCluster, chance: random.Random) -> None:
        self._soaked = soaked
        self._cluster = soaked.cluster
        self._chance = chance
        self._alive: dict[str, int] = {}
        self._fitting_since: dict[str, float] = {}
        self.counts = Counts()

    @property
    def parts(self) -> Mapping[str, Part]:
        return self._soaked.parts

    def interrupted(self) -> None:
        self._fitting_since.clear()

    def wait_until_served(self) -> None:
        self._cluster.server.wait_until_ready()

    def role(self, name: str) -> str:  # noqa: ARG002 -- each program has one
        return ""

    def summary(self) -> str:
        counts = self.counts
        return (f"{counts.created} pods, {len(counts.rejected)} rejected, {len(counts.late)} late, "
                f"longest wait {counts.longest_wait:.1f} s")  # fmt: skip

    def change(self) -> None:
        """Create a pod, and delete another one if there are many."""
        from support.e2e.pods import container, pod

        if len(self._alive) >= PODS:
            name = self._chance.choice(sorted(self._alive))
            self._cluster.delete(name)
            del self._alive[name]
        name, cpus = f"p{self.counts.created}", self._chance.randint(1, MAX_CPUS)
        self.counts = self.counts._replace(created=self.counts.created + 1)
        self._cluster.create([pod(name, container(cpu=str(cpus), memory="1Gi"), restart="Never")])
        self._alive[name] = cpus

    def probe_port(self, name: str) -> int | None:
        """Return the probe port of one of our programs; None before it serves, and for other programs."""
        if name == "extender":
            extender = self._soaked.extender.running
            return extender.ports[1] if extender.said.count("serving on port") == 2 else None
        agent = self._cluster.agents.get(name.removeprefix("agent ")) if name.startswith("agent ") else None
        if agent is None or agent.process is None or "serving on port" not in agent.process.said:
            return None
        return agent.process.port()

    # --- audit

    def audit(self, *, calm: bool) -> None:
        """Count rejected pods and, while it is calm, pods that wait although they fit."""
        pods = self._cluster.pods()
        for name, obj in pods.items():
            if obj["status"].get("phase") == "Failed" and name in self._alive:
                del self._alive[name]
                text = f"{name} {obj['status'].get('reason')}: {obj['status'].get('message')}"
                self.counts = self.counts._replace(rejected=(*self.counts.rejected, text))
        if calm:
            self._audit_waits(pods)
        else:
            self._fitting_since.clear()

    def _audit_waits(self, pods: dict[str, Json]) -> None:
        now = time.monotonic()
        waiting = {name: self._alive[name] for name, obj in pods.items() if name in self._alive and not _node_of(obj)}
        room = {node: self._largest_free(node, pods) for node in self._cluster.nodes}
        fitting = {name: node for name, cpus in waiting.items() for node, free in room.items() if cpus <= free}
        for name in self._fitting_since.keys() - fitting.keys():
            del self._fitting_since[name]
        self.counts = self.counts._replace(fitting=self.counts.fitting + len(fitting))
        for name, node in fitting.items():
            waited = now - self._fitting_since.setdefault(name, now)
            longest = max(self.counts.longest_wait, waited)
            self.counts = self.counts._replace(longest_wait=longest)
            if waited > MAX_WAIT:
                del self._fitting_since[name]
                said = _why_unscheduled(pods[name])
                text = f"{name} of {waiting[name]} CPUs fits on {node} with {room[node]} free; the pod says: {said}"
                self.counts = self.counts._replace(late=(*self.counts.late, text))

    def _largest_free(self, node: str, pods: dict[str, Json]) -> int:
        """Return the free CPUs of a node's emptiest zone; 0 while its kubelet has still to admit a pod."""
        active = {obj["metadata"]["uid"] for obj in pods.values() if _node_of(obj) == node and _is_active(obj)}
        state = self._soaked.cpu_state(node)
        if state is None or not active <= state.held.keys():
            return 0
        return state.largest_free({obj["metadata"]["uid"] for obj in pods.values()})


def main(arguments: Sequence[str]) -> int:
    """Run the soak and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    from support.e2e.cluster import skip_reason

    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if reason := skip_reason():
        return skip(reason)
    with ExitStack() as stack:
        soaked = stack.enter_context(running_soak_cluster(NODES))
        chance = random.Random(options.seed)  # noqa: S311 -- no secret
        pods = _SoakedPods(soaked, chance)
        loop = SoakLoop(pods, chance)
        for index, port in enumerate(_attacked_ports(pods, soaked)):
            stack.enter_context(HostileClients(port, options.seed + index))
        loop.run(options.minutes * 60)
        counts = pods.counts
        for text in (*counts.rejected, *counts.late, *loop.counts.unanswered[:20], *loop.counts.tracebacks):
            print(text)
        return show([*_rows(counts), *loop.rows()])


def _attacked_ports(pods: _SoakedPods, soaked: SoakCluster) -> list[Callable[[], int]]:
    def extender_port() -> int:
        extender = soaked.extender.running
        return extender.ports[0] if pods.probe_port("extender") else _NO_PORT

    names = ["extender", *(name for name in soaked.parts if name.startswith("agent "))]
    return [extender_port, *(lambda name=name: pods.probe_port(name) or _NO_PORT for name in names)]


def _rows(counts: Counts) -> list[Row]:
    return [
        Row("pods created", str(counts.created)),
        Row("pods rejected by kubelets", str(len(counts.rejected)), "0", not counts.rejected),
        Row("times that a pod was seen to wait although it fits", str(counts.fitting)),
        Row("longest wait of a pod that fits", f"{counts.longest_wait:.1f} s", f"<= {MAX_WAIT:.0f} s", not counts.late),
    ]


def _node_of(pod: Json) -> str:
    return pod["spec"].get("nodeName", "")


def _why_unscheduled(pod: Json) -> str:
    conditions: list[Json] = pod["status"].get("conditions") or []
    return next(
        (condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"), "nothing"
    )


def _is_active(pod: Json) -> bool:
    return pod["status"].get("phase") not in _TERMINAL and "deletionTimestamp" not in pod["metadata"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
