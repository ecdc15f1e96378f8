"""The fit of all nodes at once: filter and score for one pod, absorption of changed rows, and memory.

The peers in the same run are `admit` for each node, and the filter and score of nodes.noderesourcetopology. Both run on
a sample of nodes and are extrapolated. Times are CPU time of a single thread that never waits. Cold: no such pod was
filtered before. Warm: an equal pod, after one row has changed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.support.fit_cluster import EIGHT_ZONES, TWO_ZONES, NodeSpec, kind, pod, states
from benchmarks.support.targets import Row, show
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.noderesourcetopology import filter_node, score_node
from zonewise_scheduler.nodes.score.fragmentation import PendingShape
from zonewise_scheduler.nodes.score.node_score import score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

RUNS = 60
SAMPLE = 40
CHANGED = 20_000
WAITING = (PendingShape(pod(30, 4), 10), PendingShape(pod(4, 0), 100))

MEMORY = """
from benchmarks.fit_nodes_at_once import resident_after_loading
print(resident_after_loading())
"""


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    rows: list[Row] = []
    for make, count, target in ((EIGHT_ZONES, 5_000, 1.0), (TWO_ZONES, 65_000, 5.0)):
        rows += _sweep(make, count, target)
    rows += _memory()
    return show(rows)


def _sweep(make: NodeSpec, count: int, target: float) -> Iterator[Row]:
    nodes = states(kind(make), make, count)
    table = NodeStateTable()
    table.set_rows(dict(enumerate(nodes)))
    name = f"{count:,} nodes x {make.zones} zones x 6 resources"
    table.admitted(pod())
    cold: dict[str, list[float]] = {"cold": [], "cold, 2 shapes waiting": []}
    for number in range(RUNS):
        for place, (what, waiting) in enumerate(zip(cold, ((), WAITING), strict=True)):
            shape = pod(2 * (number % 8) + 2, memory=8 + 2 * number + place)  # no such pod was filtered before
            cold[what].append(_timed(lambda shape=shape, waiting=waiting: _verdict(table, shape, waiting)))
    for what, took in cold.items():
        yield _row(f"{name}: filter + score, {what}", took, target)
    warm = [_timed(lambda number=number: _again(table, nodes, number)) for number in range(RUNS)]
    yield _row("... warm, a row later", warm, target)
    cold_ms = statistics.median(cold["cold"]) * 1000
    for peer, evaluate in (("admit", _admit), ("scheduler-plugins' rules", _plugin(nodes))):
        each = [_timed(lambda node=node, evaluate=evaluate: evaluate(node)) for node in nodes[:SAMPLE]]
        total = statistics.median(each) * 1000 * count
        yield Row(f"... {peer} node by node, extrapolated", f"{total:,.0f} ms = {total / cold_ms:,.0f} x")
    yield from _absorb(table, make, nodes)


def _verdict(table: NodeStateTable, shape: PodShape, waiting: tuple[PendingShape, ...] = ()) -> None:
    table.fits(shape)
    score(table, shape, waiting)


def _again(table: NodeStateTable, nodes: Sequence[NodeState], number: int) -> None:
    table.set(number, nodes[number + 1])
    _verdict(table, pod())


def _admit(node: NodeState) -> None:
    admit(node, pod())


def _absorb(table: NodeStateTable, make: NodeSpec, nodes: Sequence[NodeState]) -> Iterator[Row]:
    """Change rows, all of them if necessary several times, each time to new states."""
    others = states(nodes[0].kind, make, min(CHANGED, len(nodes)), seed=2)
    rounds = CHANGED // len(others)
    took: list[float] = []
    for number in range(RUNS // 4):
        changed = dict(enumerate(others if number % 2 else nodes[: len(others)]))
        took.append(_timed(lambda changed=changed: _write(table, changed)) * rounds)
    yield _row(f"... {CHANGED:,} changed rows absorbed", took, 100)


def _write(table: NodeStateTable, changed: dict[int, NodeState]) -> None:
    table.set_rows(changed)
    table.flush()


def _timed(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _row(what: str, seconds: Sequence[float], target: float) -> Row:
    median = statistics.median(seconds) * 1000
    late = sorted(seconds)[-1 - len(seconds) // 100] * 1000
    return Row(what, f"{median:.2f} ms, p99 {late:.2f}", f"<= {target:g} ms", median <= target)


def _memory() -> Iterator[Row]:
    command = [sys.executable, "-c", MEMORY]
    resident = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield Row(
        "65,000 nodes x 2 zones, names, states, verdicts: resident", f"{resident:.0f} MB", "<= 300 MB", resident <= 300
    )


def resident_after_loading() -> float:
    """Return the resident MB of this process after it has loaded a cluster and filtered some pods."""
    node_kind = kind(TWO_ZONES)
    table = NodeStateTable()
    names: dict[str, int] = {}
    for row, state in enumerate(states(node_kind, TWO_ZONES, 65_000)):
        names[f"node-{row:05}.cluster.example.com"] = row
        table.set(row, state)
    for number in range(10):
        _verdict(table, pod(2 * number + 2))
    return psutil.Process().memory_info().rss / 1e6


def _plugin(nodes: Sequence[NodeState]) -> Callable[[NodeState], None]:
    """Return the plugin's filter and score, on the objects of some nodes, which are created beforehand."""
    objects = {id(node): _nrt(node) for node in nodes[:SAMPLE]}
    manifest = _manifest(pod())
    node_object = {"metadata": {"name": "n"}, "status": {"allocatable": dict(objects[id(nodes[0])][1])}}

    def evaluate(node: NodeState) -> None:
        nrt, _ = objects[id(node)]
        filter_node(nrt, manifest, node_object["status"]["allocatable"])
        score_node(nrt, manifest, "LeastAllocated")

    return evaluate


def _nrt(node: NodeState) -> tuple[dict[str, Any], dict[str, str]]:
    cpus = dict(node.kind.cpus.zones)
    zones: list[dict[str, Any]] = []
    for place, zone in enumerate(node.kind.zones):
        free = {"cpu": (node.free_cpus & cpus[zone]).bit_count()}
        free |= dict(zip(node.kind.memory_types, node.memory_free[place], strict=True))
        for device, left in zip(node.kind.devices, node.device_free, strict=True):
            if device.zones == 1 << zone:
                free[device.resource] = left
        listed = [
            {"name": name, "capacity": str(amount), "allocatable": str(amount), "available": str(amount)}
            for name, amount in free.items()
        ]
        zones.append({"name": f"node-{zone}", "type": "Node", "resources": listed})
    attributes = [
        {"name": "topologyManagerPolicy", "value": "single-numa-node"},
        {"name": "topologyManagerScope", "value": "container"},
    ]
    names = {resource["name"]: str(1 << 40) for resource in zones[0]["resources"]}
    return {"metadata": {"name": "n"}, "attributes": attributes, "zones": zones}, names


def _manifest(shape: PodShape) -> dict[str, Any]:
    (container,) = shape.containers
    amounts = {"cpu": f"{container.milli_cpus}m"}
    amounts |= {name: str(amount) for name, amount in (*container.memory, *container.devices)}
    own = {"name": container.name, "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [own]}}


if __name__ == "__main__":
    sys.exit(main())
