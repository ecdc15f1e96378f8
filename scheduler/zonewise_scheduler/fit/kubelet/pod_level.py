"""Pods with resources of their own that are given whole, in scope pod (KEP-5526, gate PodLevelResourceManagers, 1.36).

The pod gets one set of CPUs and one of memory. Containers that are complete have their part of it exclusively, and the
others share what remains (cpumanager and memorymanager policy_static.go AllocatePod).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.asks import memory_request, pins_memory, pod_memory_request
from zonewise_scheduler.fit.kubelet.cpu_giving import check_alignment
from zonewise_scheduler.fit.kubelet.cpus import CpuShortage, divide_pod_cpus, empty_pool, pod_cpu_request, take_cpus
from zonewise_scheduler.fit.kubelet.device_giving import give_devices
from zonewise_scheduler.fit.kubelet.memory_giving import charged, choose_zones
from zonewise_scheduler.fit.kubelet.refusal import EMPTY_POOL, Refusal, unexpected
from zonewise_scheduler.fit.model.resources import CPU, MEMORY
from zonewise_scheduler.fit.model.verdict import MemoryShare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.fit.kubelet.books import Ask, Books
    from zonewise_scheduler.fit.kubelet.merge import Alignment
    from zonewise_scheduler.fit.model.node import Policies
    from zonewise_scheduler.fit.model.pod import Amounts, Container, PodShape


def empty_pools(pod: PodShape, policies: Policies) -> dict[str, str]:
    """Return, by manager, why containers that share would have nothing to share (validatePodScopeResources)."""
    cpus = empty_pool(pod, policies) if pod_cpu_request(pod, policies) else None
    memory = _empty_memory(pod, policies) if pins_memory(pod, policies) else None
    return {manager: problem for manager, problem in ((CPU, cpus), (MEMORY, memory)) if problem}


def _empty_memory(pod: PodShape, policies: Policies) -> str | None:
    lasting: dict[str, int] = {}
    shared = False
    for one in pod.containers:
        own = memory_request(pod, one, policies)
        if one.role == "init":
            gone = _used_up(pod, policies, lasting)
            if gone and not own:
                return f"pod rejected, pod has shared init containers but no {gone} available for them"
            continue
        shared = shared or not own
        for name, size in own:
            lasting[name] = lasting.get(name, 0) + size
    gone = _used_up(pod, policies, lasting)
    if not (shared and gone):
        return None
    return (
        f"pod rejected, sum of exclusive container {gone} requests equals pod budget, "
        "leaving no memory for shared containers"
    )


def _used_up(pod: PodShape, policies: Policies, lasting: Mapping[str, int]) -> str | None:
    whole = pod_memory_request(pod, policies)
    return next((name for name, size in whole if lasting.get(name, 0) >= size), None)


def give_pod(books: Books, ask: Ask, alignment: Alignment, empty: Mapping[str, str]) -> None:
    """Give a pod its CPUs and memory as one, and share them out among its containers; raise Refusal.

    The Device Manager takes no part in it: it gives out devices when the containers start, from the same zones.
    """
    books.at, books.zones = "", alignment.zones
    if ask.cpus:
        _refuse_empty(empty, CPU)
        _give_cpus(books, ask.cpus, alignment.zones)
    if ask.memory:
        _refuse_empty(empty, MEMORY)
        _give_memory(books, ask.memory, alignment)
    for container in books.pod.containers:
        _give_devices_later(books, container, alignment.zones)


def _refuse_empty(empty: Mapping[str, str], manager: str) -> None:
    if manager in empty:
        raise Refusal(EMPTY_POOL, empty[manager], manager)


def _give_devices_later(books: Books, container: Container, zones: int | None) -> None:
    try:
        give_devices(books, container, zones)
    except Refusal as refusal:
        books.doubts.append(f"container {container.name} will not start for want of {refusal.resource}")


def _give_cpus(books: Books, count: int, zones: int | None) -> None:
    state = books.state
    check_alignment(state, count)
    try:
        cpus = take_cpus(state, count, zones, 0)
        parts = divide_pod_cpus(state.kind, books.pod, cpus)
    except CpuShortage as shortage:
        raise unexpected(str(shortage), CPU) from None
    books.cpus = {one.name: part for one, part in zip(books.pod.containers, parts, strict=True)}
    books.state = state._replace(free_cpus=state.free_cpus & ~cpus)


def _give_memory(books: Books, whole: Amounts, alignment: Alignment) -> None:
    pod = books.pod
    zones = choose_zones(books, whole, alignment)
    pool, sharers = dict(whole), list[str]()
    for one in pod.containers:
        own = memory_request(pod, one, books.state.kind.policies)
        if one.role == "init":
            books.memory[one.name] = _shares(own or tuple(pool.items()), zones)
        elif own:
            books.memory[one.name] = _shares(own, zones)
            pool |= {name: pool.get(name, 0) - size for name, size in own}
        else:
            sharers.append(one.name)
    for name in sharers:
        books.memory[name] = _shares(tuple(pool.items()), zones)
    for name, size in whole:
        books.state = charged(books.state, zones, name, size)


def _shares(amounts: Amounts, zones: int) -> list[MemoryShare]:
    return [MemoryShare(name, zones, size) for name, size in amounts if size > 0]
