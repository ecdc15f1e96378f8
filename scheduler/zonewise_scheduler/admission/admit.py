"""The verdict of one kubelet on one pod: admitted or rejected, and with which resources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.cpumanager import guaranteed_cpus
from zonewise_scheduler.admission.errors import PANIC_PREFIX, AdmissionError
from zonewise_scheduler.admission.memorymanager.memory_requests import memory_request, pins_memory
from zonewise_scheduler.admission.predicate import general_filter
from zonewise_scheduler.admission.scope import admit_containers
from zonewise_scheduler.admission.verdict import Verdict

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind, NodeState, Policies, Resource
    from zonewise_scheduler.admission.pod import PodShape

MASK_BITS = 64
"""Number of bits in a kubelet's mask of NUMA nodes (topologymanager/bitmask/bitmask.go)."""

RELEASES = tuple((1, minor) for minor in range(31, 38))
"""The releases of kubelets whose rules are known."""


def admit(state: NodeState, pod: PodShape, available: Resource | None = None) -> Verdict:
    """Return the verdict of a node's kubelet on a pod, and the resources that the containers get.

    The verdict is exact for kubelets 1.31 to 1.37. The Topology Manager decides first, with its device, CPU and memory
    managers (pkg/kubelet/cm). If `available` is passed, the check of the whole node follows
    (pkg/kubelet/lifecycle/predicate.go).

    In the resulting state of the node, resources of init containers that no later container reused are still allocated.
    The kubelet keeps their CPUs and devices until the pod is deleted, and their memory until the next container starts.
    """
    context = AdmissionContext(state, pod)
    try:
        check_numa_nodes(state.kind.policies, state.kind.zones, pinned=_is_pinned_beyond_masks(state.kind, pod))
        admit_containers(context)
        context.container_name = ""
        if available is not None:
            general_filter(pod, available)
    except AdmissionError as error:
        return Verdict(
            False,
            reason=error.reason,
            message=error.message,
            container=context.container_name,
            resource=error.resource,
            uncertain=_uncertain(context),
        )
    return Verdict(True, context.assignments(), context.state, uncertain=_uncertain(context))


def differing_releases(state: NodeState, pod: PodShape) -> tuple[tuple[int, int], ...]:
    """Return the releases with which the node's kubelet would decide otherwise or allocate other resources."""
    verdict = admit(state, pod)

    def differs(release: tuple[int, int]) -> bool:
        kind = replace(state.kind, policies=state.kind.policies._replace(release=release))
        other = admit(state._replace(kind=kind), pod)
        return (other.admitted, other.assignments) != (verdict.admitted, verdict.assignments)

    return tuple(filter(differs, RELEASES))


def check_numa_nodes(policies: Policies, zones: tuple[int, ...], *, pinned: bool) -> None:
    """Raise AdmissionError with an empty reason if a kubelet with these NUMA nodes does not start, or panics.

    `pinned`: whether the Memory Manager pins the pod's memory. Sources: topology_manager.go NewManager. bitmask.go
    NewBitMask returns nil for ids of 64 and above, which policy.go mergePermutation and memorymanager calculateHints
    then use.
    """
    if policies.topology != "none" and len(zones) > policies.max_zones:
        raise AdmissionError("", f"unsupported on machines with more than {policies.max_zones} NUMA Nodes")
    if (policies.topology != "none" or pinned) and _exceeds_masks(zones):
        raise AdmissionError("", f"{PANIC_PREFIX}its masks have no bit for NUMA node {zones[-1]}")


def _exceeds_masks(zones: tuple[int, ...]) -> bool:
    return bool(zones) and zones[-1] >= MASK_BITS


def _is_pinned_beyond_masks(kind: NodeKind, pod: PodShape) -> bool:
    pinned = (memory_request(pod, container, kind.policies) for container in pod.containers)
    return _exceeds_masks(kind.zones) and any(pinned)


def _uncertain(context: AdmissionContext) -> tuple[str, ...]:
    return (*relevant_unknowns(context.state.kind, context.pod), *context.uncertain)


def relevant_unknowns(kind: NodeKind, pod: PodShape) -> tuple[str, ...]:
    """Return the reasons why the verdict on a pod may be wrong, each as "nothing is known about ...".

    An unknown fact about CPUs or memory matters to pods that a static manager would pin, whichever policies the node is
    believed to have. Any other unknown fact matters to every pod that gets an exclusive resource.
    """
    if not kind.unknown:
        return ()
    policies = kind.policies._replace(cpu="static", memory="Static")
    cpus = any(guaranteed_cpus(pod, container, policies) for container in pod.containers)
    memory = pins_memory(pod, policies)
    devices = any(name in kind.device_indices for container in pod.containers for name, _ in container.devices)
    anything = cpus or memory or devices

    def matters(subject: str) -> bool:
        mentioned = ("CPU" in subject, "memory" in subject.lower())
        return (mentioned[0] and cpus) or (mentioned[1] and memory) if any(mentioned) else anything

    return tuple(f"nothing is known about {subject}" for subject in kind.unknown if matters(subject))
