"""Made nodes and pods, and kubelets that admit by the fit's own rules: what the ledger sees a delayed picture of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.nrt.podfingerprint import fingerprint
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, NodeState, Policies
from zonewise_scheduler.admission.pod import Amounts, Container, PodShape
from zonewise_scheduler.admission.report.node_report import NodeReport, PodsFingerprint
from zonewise_scheduler.nodes.assumed.exclusive_resources import has_exclusive_resources
from zonewise_scheduler.nodes.assumed.types import BoundPod, PendingPod

if TYPE_CHECKING:
    from zonewise_scheduler.admission.verdict import Verdict

GPU = "vendor.example/gpu"
GIB = 1 << 30

ALL = "all"
EXCLUSIVE = "with-exclusive-resources"


def kind_of(policies: Policies, zones: int = 2, cpus: int = 8, gpus: int = 2, gib: int = 0) -> NodeKind:
    """Zones, each with CPUs without siblings, GPUs, and memory if the Memory Manager is to give it."""
    groups = tuple((zone, ((1 << cpus) - 1) << (zone * cpus)) for zone in range(zones))
    return NodeKind(
        policies._replace(memory="Static" if gib else "None"),
        tuple(range(zones)),
        tuple(tuple(10 if one == other else 21 for other in range(zones)) for one in range(zones)),
        CpuTopology(tuple((cpu, 1 << cpu) for cpu in range(zones * cpus)), groups, groups),
        ("memory",) if gib else (),
        ((gib * GIB,),) * zones if gib else (),
        tuple(DeviceClass(GPU, 1 << zone, gpus, gpus) for zone in range(zones)) if gpus else (),
    )


SINGLE = Policies(topology="single-numa-node", cpu="static")


def container(name: str, cpus: int, gpus: int = 0, gib: int = 1, extra: Amounts = ()) -> Container:
    devices = ((GPU, gpus),) if gpus else ()
    return Container(name, "app", cpus * 1000, (("memory", gib * GIB),), devices + extra)


def shape_of(*cpus_and_gpus: tuple[int, int], gib: int = 1) -> PodShape:
    """A guaranteed pod, by container."""
    return PodShape(
        tuple(container(f"c{place}", *each, gib=gib) for place, each in enumerate(cpus_and_gpus)), "Guaranteed"
    )


SHARED = PodShape((Container("c0", "app", 500),), "Burstable")
"""A pod that holds nothing of a zone."""


class Held(NamedTuple):
    cpus: int
    memory: tuple[tuple[int, ...], ...]
    devices: tuple[int, ...]


@dataclass
class Kubelet:
    """A node as it truly is. Memory must not be given from several zones as one: then giving back is a sum."""

    node: str
    state: NodeState
    methods: tuple[str, ...] = (ALL, EXCLUSIVE)
    """Of the fingerprints in its reports."""
    hidden: bool = False
    """One more pod, of which only the kubelet knows, is in its fingerprints."""
    pods: dict[str, PendingPod] = field(default_factory=dict[str, PendingPod])
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    reports: int = 0
    """How many it has published."""
    ended: int = -1
    """How many those were when a pod last ended."""

    def sees(self, pod: PendingPod) -> Verdict:
        """Admit a pod, or not."""
        before, verdict = self.state, admit(self.state, pod.shape)
        after = verdict.after
        if after is not None:
            self.pods[pod.uid] = pod
            self.held[pod.uid] = Held(
                before.free_cpus & ~after.free_cpus,
                tuple(
                    tuple(one - other for one, other in zip(was, now, strict=True))
                    for was, now in zip(before.memory_free, after.memory_free, strict=True)
                ),
                tuple(one - other for one, other in zip(before.device_free, after.device_free, strict=True)),
            )
            self.state = after
        return verdict

    def ends(self, uid: str) -> None:
        """End a pod: all that it held is free."""
        del self.pods[uid]
        held = self.held.pop(uid)
        state = self.state
        assigned = 0
        for other in self.held.values():
            for zone, amounts in zip(state.kind.zones, other.memory, strict=False):
                assigned |= any(amounts) << zone
        self.state = state._replace(
            free_cpus=state.free_cpus | held.cpus,
            memory_free=tuple(
                tuple(one + other for one, other in zip(now, back, strict=True))
                for now, back in zip(state.memory_free, held.memory, strict=True)
            ),
            memory_assigned=assigned,
            device_free=tuple(one + other for one, other in zip(state.device_free, held.devices, strict=True)),
        )
        self.ended = self.reports

    def report(self) -> NodeReport:
        """What its agent publishes now."""
        self.reports += 1
        return report_of(
            self.node, self.state, list(self.pods.values()), self.reports, methods=self.methods, hidden=self.hidden
        )


def report_of(
    node: str,
    state: NodeState,
    pods: list[PendingPod],
    version: int,
    *,
    methods: tuple[str, ...] = (ALL, EXCLUSIVE),
    hidden: bool = False,
) -> NodeReport:
    """A report with the fingerprints of pods."""
    unknown = [("hidden", "hidden")] if hidden else []
    names = {
        ALL: [(pod.namespace, pod.name) for pod in pods] + unknown,
        EXCLUSIVE: [(pod.namespace, pod.name) for pod in pods if has_exclusive_resources(state.kind, pod.shape)]
        + unknown,
    }
    covered = tuple(PodsFingerprint(method, fingerprint(names[method])) for method in methods)
    return NodeReport(node, state, covered, (), str(version))


def bound(pod: PendingPod, node: str, started: float | None = None) -> BoundPod:
    return BoundPod(*pod, node=node, started=started)
