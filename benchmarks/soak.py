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
import http.client
import random
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import urllib3

from benchmarks.soak_clients import HostileClients
from benchmarks.soak_cluster import SoakCluster, running_soak_cluster
from benchmarks.soak_resources import Growth, ResourceLog
from benchmarks.targets import Row, show, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.soak_cluster import Part

Json = dict[str, Any]

NODES = 3
PODS = 26
MAX_CPUS = 16
PERIOD = 1.0
"""Seconds between two changes of pods."""
SAMPLE_PERIOD = 0.5
FAULT_SECONDS = (2.0, 10.0)
GRACE = 10.0
"""Seconds after a fault in which waiting pods are not counted, while kubelets and kube-scheduler reconnect."""
CALM = 15.0
"""Seconds from the end of the grace after one fault to the next fault."""
MAX_WAIT = 5.0
WARM_UP = 60.0
"""Seconds at the start of a program's life that do not count for its growth."""
_TERMINAL = ("Succeeded", "Failed")
_PROBE_TIMEOUT = 2.0
_NO_PORT = 1
"""A port on which nothing listens: the program is restarting."""


class Counts(NamedTuple):
    """The soak's counts so far."""

    created: int = 0
    faults: int = 0
    rejected: tuple[str, ...] = ()
    """Name and reason for each pod that a kubelet rejected."""
    fitting: int = 0
    """How often a waiting pod was observed that fits."""
    longest_wait: float = 0.0
    """Longest time in seconds that a pod which fits has waited."""
    late: tuple[str, ...] = ()
    """Pods that fit but waited too long, with the node."""
    probes: int = 0
    unanswered: tuple[str, ...] = ()
    tracebacks: tuple[str, ...] = ()
    """A program's name and its log from the traceback on."""


class _Soak:
    def __init__(self, soaked: SoakCluster, seed: int) -> None:
        self._soaked = soaked
        self._cluster = soaked.cluster
        self._chance = random.Random(seed)  # noqa: S311 -- no secret
        self._alive: dict[str, int] = {}
        self._fitting_since: dict[str, float] = {}
        self._faulty: set[str] = set()
        self._calm_from = time.monotonic()
        self.counts = Counts()
        self.resources = ResourceLog()

    def run(self, seconds: float) -> None:
        """Run until the time is over, with a fault after each calm phase; then read the logs."""
        end = time.monotonic() + seconds
        report = time.monotonic() + 60.0
        while time.monotonic() < end:
            self._run_until(time.monotonic() + CALM)
            self._fault()
            self._calm_from = time.monotonic() + GRACE
            self._run_until(self._calm_from)
            if time.monotonic() >= report:
                report += 60.0
                print(f"{end - time.monotonic():5.0f} s left: {_summary(self.counts)}", file=sys.stderr, flush=True)
        for part in self._soaked.parts.values():
            self._read_log(part)

    def _run_until(self, end: float) -> None:
        due = time.monotonic()
        while (now := time.monotonic()) < end:
            if now >= due:
                due = now + PERIOD
                self._when_served(self._change)
            self._when_served(self._audit)
            self._probe()
            self._sample_resources()
            time.sleep(max(0.0, min(due, end, now + SAMPLE_PERIOD) - time.monotonic()))

    def _when_served(self, call: Callable[[], None]) -> None:
        """Call a function that needs the API server, which may be down or silent."""
        if self._faulty & {"etcd", "kube-apiserver"}:
            return
        try:
            call()
        except (urllib3.exceptions.HTTPError, AssertionError):  # the server may have returned only a moment ago
            self._fitting_since.clear()

    def _change(self) -> None:
        from support.e2e.pods import container, pod

        if len(self._alive) >= PODS:
            name = self._chance.choice(sorted(self._alive))
            self._cluster.delete(name)
            del self._alive[name]
        name, cpus = f"p{self.counts.created}", self._chance.randint(1, MAX_CPUS)
        self.counts = self.counts._replace(created=self.counts.created + 1)
        self._cluster.create([pod(name, container(cpu=str(cpus), memory="1Gi"), restart="Never")])
        self._alive[name] = cpus

    # --- faults

    def _fault(self) -> None:
        part = self._soaked.parts[self._chance.choice(sorted(self._soaked.parts))]
        seconds = self._chance.uniform(*FAULT_SECONDS)
        pauses = self._chance.random() < 0.5
        self._faulty.add(part.name)
        if pauses:
            part.pause()
        else:
            self._read_log(part)
            part.kill()
        self._run_until(time.monotonic() + seconds)
        if pauses:
            part.resume()
        else:
            part.start()
        if part.name in ("etcd", "kube-apiserver"):
            self._cluster.server.wait_until_ready()
        self._faulty.remove(part.name)
        self.counts = self.counts._replace(faults=self.counts.faults + 1)

    # --- counts

    def _read_log(self, part: Part) -> None:
        """Read the log of one of our programs since its start."""
        _, marker, traceback = (part.said() if part.said is not None else "").partition("Traceback")
        if marker:
            text = f"{part.name}: {marker}{traceback[:2000]}"
            self.counts = self.counts._replace(tracebacks=(*self.counts.tracebacks, text))

    def _audit(self) -> None:
        pods = self._cluster.pods()
        for name, obj in pods.items():
            if obj["status"].get("phase") == "Failed" and name in self._alive:
                del self._alive[name]
                text = f"{name} {obj['status'].get('reason')}: {obj['status'].get('message')}"
                self.counts = self.counts._replace(rejected=(*self.counts.rejected, text))
        if self._faulty or time.monotonic() < self._calm_from:
            self._fitting_since.clear()
        else:
            self._audit_waits(pods)

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

    def _probe(self) -> None:
        for part in self._soaked.parts.values():
            port = self._probe_port(part)
            if port is None:
                continue
            self.counts = self.counts._replace(probes=self.counts.probes + 1)
            try:
                _get_health(port)
            except OSError as error:
                text = f"{part.name}: {error.__class__.__name__} {error}"
                self.counts = self.counts._replace(unanswered=(*self.counts.unanswered, text))

    def _probe_port(self, part: Part) -> int | None:
        """Return the port of one of our programs that is up and has begun to serve."""
        if part.name in self._faulty:
            return None
        return self.port(part.name)

    def port(self, name: str) -> int | None:
        """Return the probe port of one of our programs; None before it serves, and for other programs."""
        if name == "extender":
            extender = self._soaked.extender.running
            return extender.ports[1] if extender.said.count("serving on port") == 2 else None
        agent = self._cluster.agents.get(name.removeprefix("agent ")) if name.startswith("agent ") else None
        if agent is None or agent.process is None or "serving on port" not in agent.process.said:
            return None
        return agent.process.port()

    def _sample_resources(self) -> None:
        now = time.monotonic()
        for name, part in self._soaked.parts.items():
            if part.said is not None:
                self.resources.sample(name, part.pid(), now)


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
        soak = _Soak(soaked, options.seed)
        for index, port in enumerate(_attacked_ports(soak, soaked)):
            stack.enter_context(HostileClients(port, options.seed + index))
        soak.run(options.minutes * 60)
        for text in (*soak.counts.rejected, *soak.counts.late, *soak.counts.unanswered[:20], *soak.counts.tracebacks):
            print(text)
        return show(_rows(soak))


def _attacked_ports(soak: _Soak, soaked: SoakCluster) -> list[Callable[[], int]]:
    def extender_port() -> int:
        extender = soaked.extender.running
        return extender.ports[0] if soak.port("extender") else _NO_PORT

    names = ["extender", *(name for name in soaked.parts if name.startswith("agent "))]
    return [extender_port, *(lambda name=name: soak.port(name) or _NO_PORT for name in names)]


def _rows(soak: _Soak) -> list[Row]:
    counts = soak.counts
    rows = [
        Row("pods created", str(counts.created)),
        Row("faults", str(counts.faults)),
        Row("pods rejected by kubelets", str(len(counts.rejected)), "0", not counts.rejected),
        Row("times that a pod was seen to wait although it fits", str(counts.fitting)),
        Row("longest wait of a pod that fits", f"{counts.longest_wait:.1f} s", f"<= {MAX_WAIT:.0f} s", not counts.late),
        Row("probes unanswered", f"{len(counts.unanswered)} of {counts.probes}", "0", not counts.unanswered),
        Row("programs with a traceback in their log", str(len(counts.tracebacks)), "0", not counts.tracebacks),
    ]
    return rows + [_growth_row(name, growth) for name, growth in soak.resources.growth(WARM_UP).items()]


def _growth_row(name: str, growth: Growth) -> Row:
    measured = f"{growth.resident / 2**20:+.1f} MiB, {growth.threads:+d}, {growth.descriptors:+d}"
    flat = growth.resident <= 2 << 20 and growth.threads <= 2 and growth.descriptors <= 5
    return Row(f"{name}: growth in {growth.seconds:.0f} s: memory, threads, descriptors", measured, "flat", flat)


def _summary(counts: Counts) -> str:
    return (f"{counts.created} pods, {counts.faults} faults, {len(counts.rejected)} rejected, {len(counts.late)} late, "
            f"longest wait {counts.longest_wait:.1f} s, {len(counts.unanswered)} of {counts.probes} probes unanswered"
            )  # fmt: skip


def _get_health(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PROBE_TIMEOUT)
    try:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


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
