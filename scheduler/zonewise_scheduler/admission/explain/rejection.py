"""Explanation of why a kubelet rejects a pod, as a sentence for users."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zonewise_scheduler.admission import errors
from zonewise_scheduler.admission.aligned_requests import container_aligned_request, pod_aligned_request
from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.cpumanager import uses_pod_level_managers
from zonewise_scheduler.admission.explain.misalignment import explain_misalignment, free_cpu_count, memory_in_words
from zonewise_scheduler.admission.explain.phrases import amount, are_free, listed, zones_in_words
from zonewise_scheduler.admission.pod_level_managers import empty_shared_pools
from zonewise_scheduler.admission.resource_names import CPU, MEMORY
from zonewise_scheduler.admission.scope import admit_containers

if TYPE_CHECKING:
    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict


def explain_rejection(state: NodeState, pod: PodShape, verdict: Verdict) -> str:
    """Return the reason for a verdict in words: "needs 6 CPUs in one zone; zone 0 has 4 free, zone 1 has 4".

    `state` and `pod` are the arguments from which the verdict was computed. The container is named if the pod has
    several. The text is empty for an admitted pod.
    """
    if verdict.admitted:
        return ""
    if not verdict.reason:
        return _no_verdict(verdict.message)
    if verdict.reason.startswith("OutOf"):
        return f"needs more {verdict.resource} than the node has left"
    context = AdmissionContext(state, pod)
    with suppress(errors.AdmissionError):
        admit_containers(context)
    several = verdict.container and pod.containers[1:]
    return (f"container {verdict.container} " if several else "") + _manager_problem(context, verdict)


def _no_verdict(message: str) -> str:
    """Return why there is no verdict: there are too many zones, or the kubelet panics or does not start."""
    if message.startswith((errors.UNKNOWN_PREFIX, errors.PANIC_PREFIX)):
        return message
    return f"its kubelet does not start: it is {message}"


def _manager_problem(context: AdmissionContext, verdict: Verdict) -> str:
    """Return the problem, given the state of the node when the kubelet rejects the container."""
    kind = context.state.kind
    pod = context.pod
    container = next((each for each in pod.containers if each.name == verdict.container), None)
    aligned = pod_aligned_request(pod, kind) if container is None else container_aligned_request(pod, container, kind)
    match verdict.reason:
        case errors.TOPOLOGY_AFFINITY_ERROR:
            pod_level = container is None and uses_pod_level_managers(pod, kind.policies)
            empty = empty_shared_pools(pod, kind.policies) if pod_level else {}
            return _empty_pool(aligned, next(iter(empty))) if empty else explain_misalignment(context, aligned)
        case errors.SMT_ALIGNMENT_ERROR:
            return _cores(context.state, aligned.cpus)
        case errors.EMPTY_POD_SHARED_POOL_ERROR:
            return _empty_pool(aligned, verdict.resource)
        case _:
            return _failed_allocation(context, aligned, verdict.resource)


def _failed_allocation(context: AdmissionContext, aligned: AlignedRequest, resource: str) -> str:
    if resource == MEMORY:
        return _memory(context, aligned)
    if resource == CPU:
        return _cpus(context, aligned.cpus)
    return _devices(context, resource, dict(aligned.devices)[resource])


def _empty_pool(aligned: AlignedRequest, manager: str) -> str:
    pools = {CPU: ((CPU, aligned.cpus),), MEMORY: aligned.memory}
    amounts = listed([amount(name, size) for name, size in pools[manager]])
    return f"leaves nothing of its {amounts} to the containers that have none of their own"


def _cpus(context: AdmissionContext, cpus: int) -> str:
    free = free_cpu_count(context)
    # distribute-cpus-across-numa can fail with enough free CPUs (cpumanager/numa_distributed.py)
    uneven = f", but the kubelet cannot distribute {cpus} evenly among zones" if free >= cpus else ""
    return f"needs {amount(CPU, cpus)}; {are_free(free)}{uneven}"


def _cores(state: NodeState, cpus: int) -> str:
    threads = state.kind.cpus.cpus_per_core
    rounded_down = cpus - cpus % threads
    if cpus % threads:
        choices = f"{rounded_down} or {rounded_down + threads}" if rounded_down else str(threads)
        return (
            f"needs {amount(CPU, cpus)}, but the node allocates only whole cores of {threads}: request {choices} CPUs"
        )
    free = state.free_cpus & ~state.kind.cpus.reserved_cores
    return f"needs {amount(CPU, cpus)} in whole cores; {are_free(free.bit_count())}"


def _devices(context: AdmissionContext, resource: str, count: int) -> str:
    kind = context.state.kind
    indices = kind.device_indices.get(resource, ())
    if not any(kind.devices[index].healthy for index in indices):
        return f"needs {amount(resource, count)}; none is healthy{'' if count else ', and even 0 is then rejected'}"
    free = sum(context.state.device_free[index] + context.reusable_devices.get(index, 0) for index in indices)
    return f"needs {amount(resource, count)}; {are_free(free)}"


def _memory(context: AdmissionContext, aligned: AlignedRequest) -> str:
    if not aligned.memory:
        return "requests no memory, which the kubelet rejects for a container of a pod with pod-level resources"
    requested = listed([amount(name, size) for name, size in aligned.memory])
    aligned_to = None if context.affinity is None else zones_in_words(context.affinity)
    source = "the same zones" if aligned_to is None else f"{aligned_to}, which it is aligned to"
    return f"needs {requested} from {source}; {'; '.join(memory_in_words(context.state, aligned))}"
