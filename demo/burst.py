"""A burst of pods on three nodes, twice: placed by what nodes have left, as kube-scheduler does; and by zones.

Both times the kubelets answer by their own rules; what they refuse has failed, and nobody tries it again.
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
"""CPUs and GPUs of each pod, in the order in which they come."""


class PodRequest(NamedTuple):
    """One pod."""

    name: str
    cpus: int
    gpus: int

    @property
    def description(self) -> str:
        """Return what it asks for, in words."""
        gpus = f", {self.gpus} GPU{'s' if self.gpus > 1 else ''}" if self.gpus else ""
        return f"{self.cpus} CPUs{gpus}"

    @property
    def shape(self) -> PodShape:
        """Return it as the kubelet sees it."""
        devices = ((GPU, self.gpus),) if self.gpus else ()
        return PodShape((Container("main", "app", self.cpus * 1000, (("memory", 4 * GIB),), devices),), "Guaranteed")


class BurstOutcome(NamedTuple):
    """What became of a pod."""

    kind: str
    """"runs", "refused" or "waits"."""
    text: str


def run_burst() -> None:
    """Print both, side by side."""
    wishes = [PodRequest(f"pod-{number}", *wish) for number, wish in enumerate(POD_REQUESTS, 1)]
    stock, ours = schedule_by_nodes(wishes), schedule_by_zones(wishes)
    print(f"A burst on {len(NODES)} such nodes, single-numa-node: placed by what nodes have left, and by zones.\n")
    print(f"{'':8} {'wants':16} {'by nodes':40} by zones")
    for wish, one, other in zip(wishes, stock, ours, strict=True):
        print(f"{wish.name:8} {wish.description:16} {one.text:40} {other.text}".rstrip())
    print()
    for title, fates in (("by nodes", stock), ("by zones", ours)):
        counts = {kind: sum(fate.kind == kind for fate in fates) for kind in ("runs", "refused", "waits")}
        print(f"{title}: {counts['runs']} run, {counts['refused']} refused by their kubelet, {counts['waits']} wait")


def schedule_by_nodes(wishes: list[PodRequest]) -> list[BurstOutcome]:
    """Place pods where most is left of the whole node: the filter and the default score of kube-scheduler."""
    states = {node: _report(node).state for node in NODES}
    fates: list[BurstOutcome] = []
    for wish in wishes:
        room = {node: _left(state) for node, state in states.items() if state is not None}
        fitting = [node for node, (cpus, gpus) in room.items() if cpus >= wish.cpus and gpus >= wish.gpus]
        if not fitting:
            fates.append(BurstOutcome("waits", "waits"))
            continue
        node = max(fitting, key=lambda name: room[name])
        state = states[node]
        assert state is not None
        verdict = admit(state, wish.shape)
        if verdict.after is None:
            fates.append(BurstOutcome("refused", f"{node} refuses: {verdict.reason}"))
        else:
            states[node] = verdict.after
            fates.append(BurstOutcome("runs", f"{node} {_zone(verdict)}"))
    return fates


def schedule_by_zones(wishes: list[PodRequest]) -> list[BurstOutcome]:
    """Place pods as `zonewise scheduler` does, before any kubelet has reported any of them."""
    ledger, table = Ledger(), NodeStateTable()
    for row, node in enumerate(NODES):
        ledger.update_report(_report(node), 0.0)
        table.set(row, ledger.state(node))
    fates: list[BurstOutcome] = []
    for wish in wishes:
        fits, scores = table.admitted(wish.shape), score(table, wish.shape)
        rows = sorted((row for row in range(len(NODES)) if fits[row]), key=lambda row: -int(scores[row]))
        verdicts = ((row, ledger.assume(_promise(wish), NODES[row], 0.0)) for row in rows)
        promised = next(((row, verdict) for row, verdict in verdicts if verdict.admitted), None)
        if promised is None:
            state = ledger.state(NODES[0])
            assert state is not None
            verdict = admit(state, wish.shape)
            fates.append(
                BurstOutcome("waits", f"waits: {explain_rejection(state, wish.shape, verdict).partition(';')[0]}")
            )
        else:
            row, verdict = promised
            table.set(row, ledger.state(NODES[row]))
            fates.append(BurstOutcome("runs", f"{NODES[row]} {_zone(verdict)}"))
    return fates


def idle_node(name: str) -> dict[str, Any]:
    """Return what the agent says of an idle node, as an object of the API."""
    made = machine()
    cpus = made.cpus.online - CpuSet([0])
    devices = tuple(
        ContainerDevices(GPU, tuple(one.id for one in DEVICES if one.zones == (zone.id,)), (zone.id,))
        for zone in made.zones
    )
    memory = tuple(MemoryBlock("memory", MEMORY, (zone.id,)) for zone in made.zones)
    usage = node_usage(made, KubeletReport((), Allocatable(cpus, devices, memory), CONFIG))
    assert isinstance(usage, Usage)
    return machine_to_nrt(made, name, usage, CONFIG)


def _report(node: str) -> NodeReport:
    return read_nrt(idle_node(node), KindInterner())


def _left(state: NodeState) -> tuple[int, int]:
    return state.free_cpus.bit_count(), sum(state.device_free)


def _zone(verdict: Verdict) -> str:
    """Return the zone of a pod: under single-numa-node all it has is of one."""
    return f"zone {CpuSet.from_bits(verdict.assignments[0].memory[0].zones)}"


def _promise(wish: PodRequest) -> PendingPod:
    return PendingPod(wish.name, "default", wish.name, wish.shape)
