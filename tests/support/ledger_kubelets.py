"""Nodes, pods and kubelets for tests of the ledger; kubelets admit by the project's own rules and publish reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import Holdings, holdings_key, write_holdings
from zonewise_common.nrt.podfingerprint import fingerprint
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies, idle_node
from zonewise_scheduler.admission.pod import Amounts, Container, PodShape
from zonewise_scheduler.admission.report.node_report import NodeReport, PodsFingerprint
from zonewise_scheduler.nodes.assumed.exclusive_resources import has_exclusive_resources
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import BoundPod, PendingPod

if TYPE_CHECKING:
    from zonewise_scheduler.admission.verdict import Verdict

GPU = "vendor.example/gpu"
GIB = 1 << 30

ALL = "all"
EXCLUSIVE = "with-exclusive-resources"


def node_kind(policies: Policies, zones: int = 2, cpus: int = 8, gpus: int = 2, gib: int = 0) -> NodeKind:
    """Return zones with CPUs without siblings, GPUs, and memory if the Memory Manager is active."""
    groups = tuple((zone, ((1 << cpus) - 1) << (zone * cpus)) for zone in range(zones))
    return NodeKind(
        policies._replace(memory="Static" if gib else "None"),
        tuple(range(zones)),
        tuple(tuple(10 if source == target else 21 for target in range(zones)) for source in range(zones)),
        CpuTopology(tuple((cpu, 1 << cpu) for cpu in range(zones * cpus)), groups, groups),
        ("memory",) if gib else (),
        ((gib * GIB,),) * zones if gib else (),
        tuple(DeviceClass(GPU, 1 << zone, gpus, gpus) for zone in range(zones)) if gpus else (),
    )


SINGLE = Policies(topology="single-numa-node", cpu="static")


def container(name: str, cpus: int, gpus: int = 0, gib: int = 1, extra: Amounts = ()) -> Container:
    devices = ((GPU, gpus),) if gpus else ()
    return Container(name, "app", cpus * 1000, (("memory", gib * GIB),), devices + extra)


def pod_shape(*cpus_and_gpus: tuple[int, int], gib: int = 1) -> PodShape:
    """Return a guaranteed pod; one pair of CPUs and GPUs for each container."""
    return PodShape(
        tuple(container(f"c{index}", *amounts, gib=gib) for index, amounts in enumerate(cpus_and_gpus)), "Guaranteed"
    )


SHARED = PodShape((Container("c0", "app", 500),), "Burstable")
"""A pod that holds no resources of a zone."""


KIND = node_kind(SINGLE)
MOST = pod_shape((6, 0))
"""A pod that takes most of a zone of 8 CPUs."""


def pod(name: str, shape: PodShape = MOST, uid: str = "") -> PendingPod:
    return PendingPod(uid or f"uid-{name}", "jobs", name, shape)


class Holding(NamedTuple):
    cpus: int
    memory: tuple[tuple[int, ...], ...]
    devices: tuple[int, ...]


@dataclass
class Kubelet:
    """The true state of a node. Memory must not be allocated from groups of zones, so that releasing a pod is a sum."""

    node: str
    state: NodeState
    methods: tuple[str, ...] = (ALL, EXCLUSIVE)
    """The methods of the fingerprints in its reports."""
    hidden: bool = False
    """Whether the fingerprints include one more pod, which only the kubelet has."""
    pods: dict[str, PendingPod] = field(default_factory=dict[str, PendingPod])
    held: dict[str, Holding] = field(default_factory=dict[str, Holding])
    reports: int = 0
    """The number of published reports."""
    ended: int = -1
    """The number of reports published before a pod last ended."""
    lists_holdings: bool = False
    """Whether its reports have the holdings of each pod."""

    def decide(self, pod: PendingPod) -> Verdict:
        """Admit or reject a pod."""
        before, verdict = self.state, admit(self.state, pod.shape)
        after = verdict.after
        if after is not None:
            self.pods[pod.uid] = pod
            self.held[pod.uid] = Holding(
                before.free_cpus & ~after.free_cpus,
                tuple(
                    tuple(
                        before_amount - after_amount
                        for before_amount, after_amount in zip(zone_before, zone_after, strict=True)
                    )
                    for zone_before, zone_after in zip(before.memory_free, after.memory_free, strict=True)
                ),
                tuple(
                    before_amount - after_amount
                    for before_amount, after_amount in zip(before.device_free, after.device_free, strict=True)
                ),
            )
            self.state = after
        return verdict

    def end_pod(self, uid: str) -> None:
        """End a pod and free its resources."""
        del self.pods[uid]
        holding = self.held.pop(uid)
        state = self.state
        assigned = 0
        for remaining in self.held.values():
            for zone, amounts in zip(state.kind.zones, remaining.memory, strict=False):
                assigned |= any(amounts) << zone
        self.state = state._replace(
            free_cpus=state.free_cpus | holding.cpus,
            memory_free=tuple(
                tuple(free_amount + remaining for free_amount, remaining in zip(zone_free, zone_held, strict=True))
                for zone_free, zone_held in zip(state.memory_free, holding.memory, strict=True)
            ),
            memory_assigned=assigned,
            device_free=tuple(
                free_amount + remaining
                for free_amount, remaining in zip(state.device_free, holding.devices, strict=True)
            ),
        )
        self.ended = self.reports

    def report(self) -> NodeReport:
        """Return the report that the agent publishes now."""
        self.reports += 1
        report = node_report(
            self.node, self.state, list(self.pods.values()), self.reports, methods=self.methods, hidden=self.hidden
        )
        return report._replace(holdings=self.holdings()) if self.lists_holdings else report

    def holdings(self) -> tuple[tuple[int, str], ...]:
        """Return the holdings of each pod, as in a report."""
        kind = self.state.kind
        held: list[tuple[str, Holdings]] = []
        for uid, pod in self.pods.items():
            cpus, memory, devices = self.held[uid]
            amounts = [
                *((GPU, device.zones, count) for device, count in zip(kind.devices, devices, strict=True) if count),
                *(("memory", 1 << zone, row[0]) for zone, row in zip(kind.zones, memory, strict=False) if row[0]),
            ]
            held.append((holdings_key(pod.namespace, pod.name), Holdings(cpus, tuple(sorted(amounts)))))
        return tuple(write_holdings(held, {zone: CpuSet.from_bits(cpus) for zone, cpus in kind.cpus.zones}).items())


def fresh(methods: tuple[str, ...] = (ALL, EXCLUSIVE), *, hidden: bool = False) -> Kubelet:
    """Return the kubelet of an idle node n1 with two zones."""
    return Kubelet("n1", idle_node(KIND), methods, hidden)


def reported(kubelet: Kubelet, at: float = 0.0) -> Ledger:
    """Return a ledger with the node's first report."""
    ledger = Ledger()
    ledger.update_report(kubelet.report(), at)
    return ledger


def node_report(
    node: str,
    state: NodeState,
    pods: list[PendingPod],
    version: int,
    *,
    methods: tuple[str, ...] = (ALL, EXCLUSIVE),
    hidden: bool = False,
) -> NodeReport:
    """Return a report with the fingerprints of pods."""
    hidden_pods = [("hidden", "hidden")] if hidden else []
    names = {
        ALL: [(pod.namespace, pod.name) for pod in pods] + hidden_pods,
        EXCLUSIVE: [(pod.namespace, pod.name) for pod in pods if has_exclusive_resources(state.kind, pod.shape)]
        + hidden_pods,
    }
    fingerprints = tuple(PodsFingerprint(method, fingerprint(names[method])) for method in methods)
    return NodeReport(node, state, fingerprints, (), str(version))


def bound_pod(pod: PendingPod, node: str, started: float | None = None, confirmed: float | None = None) -> BoundPod:
    return BoundPod(*pod, node=node, started=started, confirmed=confirmed)


def pod_times(bound: float, started: float, written: float) -> dict[str, Any]:
    """Return the fields of a v1.Pod with its times: its binding, its start by the node's clock, its last status."""
    return {
        "metadata": {
            "creationTimestamp": timestamp(bound),
            "managedFields": [
                {"manager": "kube-scheduler", "time": timestamp(bound), "fieldsV1": {"f:spec": {"f:nodeName": {}}}},
                {"manager": "kubelet", "time": timestamp(written), "fieldsV1": {"f:status": {"f:startTime": {}}}},
            ],
        },
        "status": {
            "startTime": timestamp(started),
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(bound)}],
        },
    }


def timestamp(seconds: float) -> str:
    """Return a time of the API, with fractions of seconds, which metav1.Time does not have."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
