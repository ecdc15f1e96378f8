"""A burst of pods on three nodes, scheduled twice: by node totals, as kube-scheduler does, and by zones.

In both cases, the kubelets admit or reject by their own rules. A rejected pod has failed, and is not created again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from demo.machine import DEVICES, GPU, MEMORY, machine
from zonewise.kubelet.types import Allocatable, ContainerDevices, KubeletConfig, KubeletReport, MemoryBlock
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_scheduler.admission import admit, explain_rejection
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import NodeReport, read_nrt
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import PendingPod
from zonewise_scheduler.nodes.score.node_score import score

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.verdict import Verdict

NODES = ("node-1", "node-2", "node-3")
GIB = 1 << 30
CONFIG = KubeletConfig(
    cpu_manager_policy="static", memory_manager_policy="Static", topology_manager_policy="single-numa-node"
)
POD_REQUESTS = (
    (20, 2), (12, 1), (20, 2), (12, 2), (20, 2), (14, 0), (18, 2), (12, 1), (20, 2), (10, 3), (16, 0), (20, 2), (8, 1),
    (12, 0), (20, 1), (6, 2),
)  # fmt: skip
"""CPUs and GPUs of each pod, in order of creation."""


class PodRequest(NamedTuple):
    """A pod."""

    name: str
    cpus: int
    gpus: int

    @property
    def description(self) -> str:
        """Return its requests as text."""
        gpus = f", {self.gpus} GPU{'s' if self.gpus > 1 else ''}" if self.gpus else ""
        return f"{self.cpus} CPUs{gpus}"

    @property
    def shape(self) -> PodShape:
        """Return its shape for admission."""
        devices = ((GPU, self.gpus),) if self.gpus else ()
        return PodShape((Container("main", "app", self.cpus * 1000, (("memory", 4 * GIB),), devices),), "Guaranteed")


class BurstOutcome(NamedTuple):
    """The outcome of a pod."""

    kind: str
    """"runs", "rejected" or "pending"."""
    text: str


def run_burst() -> None:
    """Print both outcomes side by side."""
    requests = [PodRequest(f"pod-{number}", *request) for number, request in enumerate(POD_REQUESTS, 1)]
    by_nodes, by_zones = schedule_by_nodes(requests), schedule_by_zones(requests)
    print(f"A burst on {len(NODES)} such nodes, single-numa-node: by totals of nodes, and by zones.\n")
    print(f"{'':8} {'requests':16} {'by nodes':40} by zones")
    for request, stock_outcome, zone_outcome in zip(requests, by_nodes, by_zones, strict=True):
        print(f"{request.name:8} {request.description:16} {stock_outcome.text:40} {zone_outcome.text}".rstrip())
    print()
    for title, outcomes in (("by nodes", by_nodes), ("by zones", by_zones)):
        counts = {kind: sum(outcome.kind == kind for outcome in outcomes) for kind in ("runs", "rejected", "pending")}
        runs, rejected, pending = counts.values()
        print(f"{title}: {runs} run, {rejected} rejected by their kubelet, {pending} pending")


def schedule_by_nodes(requests: list[PodRequest]) -> list[BurstOutcome]:
    """Bind pods to the node with the most available resources: the filter and the default score of kube-scheduler."""
    states = {node: _report(node).state for node in NODES}
    outcomes: list[BurstOutcome] = []
    for request in requests:
        available = {node: _available(state) for node, state in states.items() if state is not None}
        fitting = [node for node, (cpus, gpus) in available.items() if cpus >= request.cpus and gpus >= request.gpus]
        if not fitting:
            outcomes.append(BurstOutcome("pending", "pending"))
            continue
        node = max(fitting, key=lambda name: available[name])
        state = states[node]
        assert state is not None
        verdict = admit(state, request.shape)
        if verdict.after is None:
            outcomes.append(BurstOutcome("rejected", f"{node} rejects: {verdict.reason}"))
        else:
            states[node] = verdict.after
            outcomes.append(BurstOutcome("runs", f"{node} {_zone(verdict)}"))
    return outcomes


def schedule_by_zones(requests: list[PodRequest]) -> list[BurstOutcome]:
    """Bind pods as `zonewise scheduler` does, before any kubelet has reported them."""
    ledger, table = Ledger(), NodeStateTable()
    for row, node in enumerate(NODES):
        ledger.update_report(_report(node), 0.0)
        table.set(row, ledger.state(node))
    outcomes: list[BurstOutcome] = []
    for request in requests:
        fits, scores = table.admitted(request.shape), score(table, request.shape)
        rows = sorted((row for row in range(len(NODES)) if fits[row]), key=lambda row: -int(scores[row]))
        verdicts = ((row, ledger.assume(_pending_pod(request), NODES[row], 0.0)) for row in rows)
        selected = next(((row, verdict) for row, verdict in verdicts if verdict.admitted), None)
        if selected is None:
            state = ledger.state(NODES[0])
            assert state is not None
            verdict = admit(state, request.shape)
            outcomes.append(
                BurstOutcome(
                    "pending", f"pending: {explain_rejection(state, request.shape, verdict).partition(';')[0]}"
                )
            )
        else:
            row, verdict = selected
            table.set(row, ledger.state(NODES[row]))
            outcomes.append(BurstOutcome("runs", f"{NODES[row]} {_zone(verdict)}"))
    return outcomes


def idle_node(name: str) -> dict[str, Any]:
    """Return an idle node's report as an API object."""
    hardware = machine()
    cpus = hardware.cpus.online - CpuSet([0])
    devices = tuple(
        ContainerDevices(GPU, tuple(device.id for device in DEVICES if device.zones == (zone.id,)), (zone.id,))
        for zone in hardware.zones
    )
    memory = tuple(MemoryBlock("memory", MEMORY, (zone.id,)) for zone in hardware.zones)
    usage = node_usage(hardware, KubeletReport((), Allocatable(cpus, devices, memory), CONFIG))
    assert isinstance(usage, Usage)
    return machine_to_nrt(hardware, name, usage, CONFIG)


def _report(node: str) -> NodeReport:
    return read_nrt(idle_node(node), KindInterner())


def _available(state: NodeState) -> tuple[int, int]:
    return state.free_cpus.bit_count(), sum(state.device_free)


def _zone(verdict: Verdict) -> str:
    """Return the zone of a pod; under single-numa-node there is only one."""
    return f"zone {CpuSet.from_bits(verdict.assignments[0].memory[0].zones)}"


def _pending_pod(request: PodRequest) -> PendingPod:
    return PendingPod(request.name, "default", request.name, request.shape)
