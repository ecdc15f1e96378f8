"""One kubelet's answer to one pod, foretold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.cpumanager import guaranteed_cpus
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.memorymanager.memory_requests import pins_memory
from zonewise_scheduler.admission.predicate import general_filter
from zonewise_scheduler.admission.scope import admit_containers
from zonewise_scheduler.admission.verdict import Verdict

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind, NodeState, Resource
    from zonewise_scheduler.admission.pod import PodShape


def admit(state: NodeState, pod: PodShape, available: Resource | None = None) -> Verdict:
    """Return what the kubelet of a node will answer to a pod, and what it will give it.

    Exact for kubelets 1.31 to 1.37: first the Topology Manager with its device, CPU and memory managers
    (pkg/kubelet/cm), then, where room is told, the node as a whole (pkg/kubelet/lifecycle/predicate.go). The node
    afterwards still holds what init containers of the pod were given and later ones did not take over: the kubelet
    keeps their CPUs and devices until the pod is gone, and their memory until the next container starts.
    """
    books = AdmissionContext(state, pod)
    try:
        check_numa_node_limit(state.kind)
        admit_containers(books)
        books.container_name = ""
        if available is not None:
            general_filter(pod, available)
    except AdmissionError as refusal:
        return Verdict(
            False,
            reason=refusal.reason,
            message=refusal.message,
            container=books.container_name,
            resource=refusal.resource,
            uncertain=_uncertain(books),
        )
    return Verdict(True, books.assignments(), books.state, uncertain=_uncertain(books))


def check_numa_node_limit(kind: NodeKind) -> None:
    """Raise Refusal, with no reason, for a node whose kubelet does not even start (topology_manager.go NewManager)."""
    policies = kind.policies
    if policies.topology != "none" and len(kind.zones) > policies.max_zones:
        raise AdmissionError("", f"unsupported on machines with more than {policies.max_zones} NUMA Nodes")


def _uncertain(books: AdmissionContext) -> tuple[str, ...]:
    return (*relevant_unknowns(books.state.kind, books.pod), *books.uncertain)


def relevant_unknowns(kind: NodeKind, pod: PodShape) -> tuple[str, ...]:
    """Return why the answer to a pod may be wrong, as "nothing is known of ...".

    A subject that names CPUs or memory matters to pods that are given them exclusively by a static manager, whatever
    the node's is thought to be; any other to all that are given anything exclusively.
    """
    if not kind.unknown:
        return ()
    policies = kind.policies._replace(cpu="static", memory="Static")
    cpus = any(guaranteed_cpus(pod, one, policies) for one in pod.containers)
    memory = pins_memory(pod, policies)
    anything = cpus or memory or any(name in kind.device_indices for one in pod.containers for name, _ in one.devices)

    def matters(subject: str) -> bool:
        named = ("CPU" in subject, "memory" in subject.lower())
        return (named[0] and cpus) or (named[1] and memory) if any(named) else anything

    return tuple(f"nothing is known of {subject}" for subject in kind.unknown if matters(subject))
