"""Why a pod does not fit a node, in a sentence that a person understands."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.aligned_requests import container_aligned_request, pod_aligned_request
from zonewise_scheduler.admission.context import AdmissionContext
from zonewise_scheduler.admission.cpumanager import uses_pod_level_managers
from zonewise_scheduler.admission.errors import (
    EMPTY_POD_SHARED_POOL_ERROR,
    SMT_ALIGNMENT_ERROR,
    TOPOLOGY_AFFINITY_ERROR,
    AdmissionError,
)
from zonewise_scheduler.admission.explain.misalignment import explain_misalignment, memory_in_words
from zonewise_scheduler.admission.explain.phrases import amount, are_free, is_bytes, listed, zones_in_words
from zonewise_scheduler.admission.pod_level_managers import empty_shared_pools
from zonewise_scheduler.admission.predicate import insufficient_resources
from zonewise_scheduler.admission.resource_names import CPU, MEMORY, PODS
from zonewise_scheduler.admission.scope import admit_containers

if TYPE_CHECKING:
    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.node import NodeState, Resource
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict


def explain_rejection(state: NodeState, pod: PodShape, verdict: Verdict, available: Resource | None = None) -> str:
    """Return why the verdict on a pod is what it is: "needs 6 CPUs in one zone; zone 0 has 4 free, zone 1 has 4".

    State, pod and room are those of the verdict. A container is named where the pod has several. Empty for a pod that
    is admitted.
    """
    if verdict.admitted:
        return ""
    if not verdict.reason:
        return f"its kubelet does not start: it is {verdict.message}"
    if verdict.reason.startswith("OutOf"):
        return _no_room(pod, verdict, available)
    books = AdmissionContext(state, pod)
    with suppress(AdmissionError):
        admit_containers(books)
    several = len(pod.containers) > 1 and verdict.container
    return (f"container {verdict.container} " if several else "") + _problem(books, verdict)


def _problem(books: AdmissionContext, verdict: Verdict) -> str:
    """Return what is wrong, from the node as it is when the container in question comes to it."""
    kind = books.state.kind
    one = next((one for one in books.pod.containers if one.name == verdict.container), None)
    ask = pod_aligned_request(books.pod, kind) if one is None else container_aligned_request(books.pod, one, kind)
    if verdict.reason == TOPOLOGY_AFFINITY_ERROR:
        empty = (
            empty_shared_pools(books.pod, kind.policies)
            if one is None and uses_pod_level_managers(books.pod, kind.policies)
            else {}
        )
        return _empty_pool(ask, next(iter(empty))) if empty else explain_misalignment(books, ask)
    if verdict.reason == SMT_ALIGNMENT_ERROR:
        return _cores(books.state, ask.cpus)
    if verdict.reason == EMPTY_POD_SHARED_POOL_ERROR:
        return _empty_pool(ask, verdict.resource)
    if verdict.resource == MEMORY:
        return _memory(books, ask)
    if verdict.resource == CPU:
        return _cpus(books, ask.cpus)
    return _devices(books, verdict.resource, dict(ask.devices).get(verdict.resource, 0))


def _no_room(pod: PodShape, verdict: Verdict, room: Resource | None) -> str:
    lack = (
        next((one for one in insufficient_resources(pod, room) if one.resource == verdict.resource), None)
        if room
        else None
    )
    if verdict.resource == PODS:
        return "the node has as many pods as it takes"
    if lack is None:
        return f"needs more {verdict.resource} than the node has left"
    wanted, left = _whole(lack.resource, lack.requested), _whole(lack.resource, max(0, lack.available))
    return f"needs {wanted} in all; the node has {left} left"


def _whole(resource: str, size: int) -> str:
    if resource == CPU:
        return f"{size / 1000:g} CPUs"
    return amount(resource, size) if is_bytes(resource) else f"{size} {resource}"


def _empty_pool(ask: AlignedRequest, manager: str) -> str:
    whole = [amount(name, size) for name, size in ([(CPU, ask.cpus)] if manager == CPU else ask.memory)]
    return f"leaves nothing of its {listed(whole)} to the containers that have none of their own"


def _cpus(books: AdmissionContext, cpus: int) -> str:
    free = (books.state.free_cpus | books.reusable_cpus).bit_count()
    # distribute-cpus-across-numa fails, or never ends, with enough of them (cpus/distributed.py)
    uneven = f", but the kubelet cannot share out {cpus} evenly among zones" if free >= cpus else ""
    return f"needs {amount(CPU, cpus)}; {are_free(free)}{uneven}"


def _cores(state: NodeState, cpus: int) -> str:
    threads = state.kind.cpus.cpus_per_core
    less = cpus - cpus % threads
    if cpus % threads:
        choices = f"{less} or {less + threads}" if less else str(threads)
        return f"needs {amount(CPU, cpus)}, but the node gives whole cores of {threads} only: ask for {choices} CPUs"
    free = state.free_cpus & ~state.kind.cpus.reserved_cores
    return f"needs {amount(CPU, cpus)} in whole cores; {are_free(free.bit_count())}"


def _devices(books: AdmissionContext, resource: str, asked: int) -> str:
    kind = books.state.kind
    places = kind.device_indices.get(resource, ())
    if not any(kind.devices[place].healthy for place in places):
        return f"needs {amount(resource, asked)}; none is healthy{'' if asked else ', and even 0 is then refused'}"
    free = sum(books.state.device_free[place] + books.reusable_devices.get(place, 0) for place in places)
    return f"needs {amount(resource, asked)}; {are_free(free)}"


def _memory(books: AdmissionContext, ask: AlignedRequest) -> str:
    if not ask.memory:
        return "has no memory of its own, and the kubelet fails to give it none in a pod with resources of its own"
    wanted = listed([amount(name, size) for name, size in ask.memory])
    source = "the same zones" if books.affinity is None else f"{zones_in_words(books.affinity)}, which it is aligned to"
    return f"needs {wanted} from {source}; {'; '.join(memory_in_words(books.state, ask))}"
