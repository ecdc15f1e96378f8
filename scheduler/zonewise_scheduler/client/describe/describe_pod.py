"""`zonewise explain POD`: where a pod waits or runs, its predicted and actual zones, and its rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.cli.details import Detail
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_scheduler.client.describe.description import Description
from zonewise_scheduler.client.jobs.pod_facts import amount_texts, amounts_text
from zonewise_scheduler.client.jobs.pod_fault import fault_lines
from zonewise_scheduler.client.nodes.node_facts import MEMORY
from zonewise_scheduler.client.nodes.node_listing import memory_text
from zonewise_scheduler.client.time_text import format_time, time_since

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.client.jobs.pod_facts import PodFacts
    from zonewise_scheduler.client.jobs.pod_fault import PodFault
    from zonewise_scheduler.client.nodes.node_facts import NodeAvailability

ADMISSION_GATE = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"


def describe_pod(
    pod: PodFacts, node: NodeAvailability | None, notes: Sequence[str], now: float, fault: PodFault | None = None
) -> Description:
    """Return the description of a pod; `node` is the node to which it is bound, None if there is none or unknown."""
    holdings = None if node is None else node.held_by(pod)
    document: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "phase": pod.phase,
        "node": pod.node or None,
        "job": pod.job or None,
        "workload": pod.workload or None,
        "requests": amount_texts(pod.requests),
        "predictedAdmission": pod.predicted_admission or None,
        "held": None if holdings is None else held_text(holdings),
        "rejected": pod.is_rejected,
        "reason": pod.reason or None,
        "message": pod.message or pod.unscheduled or None,
        "containerProblems": list(pod.container_problems),
        "schedulingGates": list(pod.gates),
        "leftToKubeScheduler": pod.left_to_kube_scheduler or None,
        "createdAt": format_time(pod.created_at),
        "startedAt": format_time(pod.started_at),
        "nodeProblems": None if node is None else list(node.problems),
        "hardwareFault": None if fault is None else fault.document(),
    }
    details = list(_details(pod, node, holdings, now))
    details.append(Detail("fault", [] if fault is None else fault_lines([fault], now), "bad"))
    return Description(f"Pod {pod.namespace}/{pod.name}", details, document, f"pod/{pod.name}", notes=notes)


def _details(pod: PodFacts, node: NodeAvailability | None, holdings: Holdings | None, now: float) -> Iterator[Detail]:
    style = {"Running": "good", "Succeeded": "good", "Failed": "bad"}.get(pod.phase, "")
    age = "" if pod.created_at is None else f", created {time_since(pod.created_at, now)}"
    yield Detail("phase", [f"{pod.phase}{age}"], style)
    yield Detail("job", [pod.job or pod.workload])
    yield Detail("requests", [amounts_text(pod.requests) or "nothing"])
    yield Detail("node", [pod.node or "none yet"])
    is_queued = ADMISSION_GATE in pod.gates  # such a pod gets its node later
    gates = [gate for gate in pod.gates if gate != TOPOLOGY_GATE or not is_queued]
    yield Detail("waits", [_gate_text(gate, pod) for gate in gates])
    yield Detail("unscheduled", [pod.unscheduled if not pod.gates else ""], "warning")
    yield Detail("predicted", [pod.predicted_admission])
    if pod.node and pod.phase in {"Running", "Pending"}:
        yield Detail("holds", [_held(node, holdings)])
    if pod.left_to_kube_scheduler:
        yield Detail("left", [f"to kube-scheduler, for: {pod.left_to_kube_scheduler}"])
    label = "rejected" if pod.is_rejected else "reason"
    yield Detail(label, [": ".join(filter(None, (pod.reason, pod.message))), *pod.container_problems], "bad")
    yield Detail("its node", [] if node is None else node.problems, "bad")


def _gate_text(gate: str, pod: PodFacts) -> str:
    """Return what a pod with a scheduling gate waits for. A pod without a job is a job of its own, or of a group."""
    if gate == ADMISSION_GATE:
        return f"waits in the queue: `zonewise explain {pod.job or pod.name}` gives the reason"
    if gate == TOPOLOGY_GATE:
        return "waits for its node: all pods of its job must exist first"
    return f"has the scheduling gate {gate}"


def _held(node: NodeAvailability | None, holdings: Holdings | None) -> str:
    if node is None or node.zones is None:
        return "unknown: its node has no NodeResourceTopology"
    if holdings is None:
        return "nothing exclusively, according to the report of its node"
    return held_text(holdings)


def held_text(holdings: Holdings) -> str:
    """Return a pod's holdings as text: "CPUs 4-7, 1 nvidia.com/gpu of zone 0"."""
    parts = [f"CPUs {CpuSet.from_bits(holdings.cpus)}"] if holdings.cpus else []
    for resource, zones, amount in holdings.amounts:
        text = f"{memory_text(amount)} memory" if resource == MEMORY else f"{amount} {resource}"
        if zones:
            several = "s" if zones & (zones - 1) else ""
            text += f" of zone{several} {CpuSet.from_bits(zones)}"
        parts.append(text)
    return ", ".join(parts) or "nothing"
