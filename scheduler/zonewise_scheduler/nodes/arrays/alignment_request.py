"""What a pod asks of a kubelet, in the order in which it is given."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.cpumanager import guaranteed_cpus, uses_pod_level_managers
from zonewise_scheduler.admission.memorymanager.memory_requests import memory_request, pins_memory
from zonewise_scheduler.admission.resource_names import MEMORY
from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.node import Policies
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape
    from zonewise_scheduler.nodes.arrays.layout import Layout

IndexedAmounts = tuple[tuple[int, int], ...]
"""Indices of the first axis of the arrays, with an amount of each."""


class AlignmentStep(NamedTuple):
    """What is aligned as one: a container, or with the scope pod the whole pod."""

    hinted: IndexedAmounts
    """What is matched to zones."""
    amounts: IndexedAmounts
    """All that is taken, wherever."""
    sums_memory: bool = False
    """Several containers' memory. Where their sum has no hint at all, the kubelet takes it that the pod does not care,
    and each container may still be given its own."""


class AlignmentRequest(NamedTuple):
    """What a pod asks of nodes of one layout."""

    steps: tuple[AlignmentStep, ...]
    """In the order of allocation; containers that ask for nothing of the kind are left out."""
    node_amounts: IndexedAmounts
    """What the node must have in sum, wherever."""
    exclusive_cpus: int = 0
    """Exclusive ones, in sum."""
    impossible: bool = False
    """No kubelet of this layout takes such a pod."""
    exact: bool = True
    """False: arrays do not suffice; each step alone, on the node as it is, is then a necessary condition."""


class _Part(NamedTuple):
    cpus: int
    memory: Amounts
    devices: Amounts


@lru_cache(maxsize=4096)
def alignment_request(layout: Layout, pod: PodShape) -> AlignmentRequest:
    """Return what a pod asks of a node of the layout.

    Sources: pkg/kubelet/cm/topologymanager/scope_container.go, scope_pod.go; podGuaranteedCPUs(),
    getPodRequestedResources() and getPodDeviceRequest() of the three managers.
    """
    policies = layout.policies
    if uses_pod_level_managers(pod, policies):
        return AlignmentRequest((), (), exact=False)
    parts = [(container, _part(container, pod, layout)) for container in pod.containers]
    busy = [(container, part) for container, part in parts if any(part)]
    sure = all(_is_plain(container, part) for container, part in busy) and _is_pinned_throughout(parts, pod, policies)
    own = [part for _, part in busy]
    if policies.topology == "none" or policies.scope != "pod":
        return _asks(own, [_step(part, layout) for part in own], layout, sure=sure)
    in_parts = sum(bool(part.memory) for part in own) > 1
    if sure and _is_whole(busy):
        return _asks(own, [_step(_sum(own), layout)._replace(sums_memory=in_parts)], layout, sure=True)
    alone = [part._replace(memory=()) for part in own] if in_parts else own
    return _asks(own, [_step(part, layout) for part in alone], layout, sure=False)


def _asks(parts: list[_Part], steps: list[AlignmentStep], layout: Layout, *, sure: bool) -> AlignmentRequest:
    counts = [part.cpus for part in parts if part.cpus]
    strange = [size for part in parts for name, size in part.memory if name not in layout.memory_index]
    cores_last = len(counts) < 2 or not layout.policies.full_cores or not layout.partly_reserved
    return AlignmentRequest(
        tuple(step for step in steps if step.amounts),
        _wanted(_sum(parts), layout) if sure else (),
        sum(counts) if sure else max(counts, default=0),
        impossible=any(strange) or not _cores_fit(counts, layout) or not _starts(layout),
        exact=sure and not strange and cores_last and _is_countable(steps, layout),
    )


def _part(container: Container, pod: PodShape, layout: Layout) -> _Part:
    policies = layout.policies
    return _Part(
        guaranteed_cpus(pod, container, policies) if policies.cpu == "static" else 0,
        memory_request(pod, container, policies) if pins_memory(pod, policies) else (),
        tuple(one for one in container.devices if one[0] in layout.device_index),
    )


def _is_plain(container: Container, part: _Part) -> bool:
    """Tell whether the container leaves nothing to later ones, and asks for more than no devices.

    One that asks for none of a resource still keeps to the zones that have it (and fails where none is healthy).
    """
    return container.role != "init" and all(count for _, count in part.devices)


def _is_pinned_throughout(parts: list[tuple[Container, _Part]], pod: PodShape, policies: Policies) -> bool:
    """Tell whether each container asks for memory if the pod is pinned; the Memory Manager is odd about others."""
    if not pins_memory(pod, policies):
        return True
    return all(any(name == MEMORY for name, _ in part.memory) for _, part in parts)


def _is_whole(busy: list[tuple[Container, _Part]]) -> bool:
    """Tell whether the pod's request is the sum of its containers': memory that only sidecars ask for is forgotten."""
    own = {name for container, part in busy if container.role == "app" for name, _ in part.memory}
    return all(name in own for _, part in busy for name, _ in part.memory)


def _sum(parts: Iterable[_Part]) -> _Part:
    cpus, memory, devices = 0, dict[str, int](), dict[str, int]()
    for part in parts:
        cpus += part.cpus
        for into, amounts in ((memory, part.memory), (devices, part.devices)):
            for name, amount in amounts:
                into[name] = into.get(name, 0) + amount
    return _Part(cpus, tuple(memory.items()), tuple(devices.items()))


def _step(part: _Part, layout: Layout) -> AlignmentStep:
    """Return what of a part is matched to zones under the layout's policies."""
    whole = _wanted(part, layout)
    policy = layout.policies.topology
    if policy == "none" or (policy == "best-effort" and not part.memory):
        return AlignmentStep(_wanted(part._replace(cpus=0, devices=()), layout), whole)
    return AlignmentStep(whole, whole)


def _wanted(part: _Part, layout: Layout) -> IndexedAmounts:
    cpus = ((CPU, part.cpus),) if part.cpus else ()
    memory = tuple((layout.memory_index[name], size) for name, size in part.memory if name in layout.memory_index)
    return cpus + memory + tuple((layout.device_index[name], count) for name, count in part.devices)


def _cores_fit(counts: list[int], layout: Layout) -> bool:
    """Tell whether full-pcpus-only allows the numbers of CPUs (policy_static.go enforceSMTAlignment())."""
    threads = layout.cpus.cpus_per_core
    return not layout.policies.full_cores or not threads or all(count % threads == 0 for count in counts)


def _starts(layout: Layout) -> bool:
    """Tell whether the kubelet starts on so many zones (topology_manager.go NewManager)."""
    return layout.policies.topology == "none" or len(layout.zones) <= layout.policies.max_zones


def _is_countable(steps: list[AlignmentStep], layout: Layout) -> bool:
    """Tell whether counts by zone foretell the later steps after the earlier ones."""
    policies = layout.policies
    if len(steps) > 1 and policies.prefer_closest and layout.has_uneven_distances:
        return False
    often = [index for step in steps for index in {index for index, _ in step.hinted}]
    mixed = {index for index in often if layout.localities[index] is ZoneLocality.MIXED}
    if policies.align_by_package:
        mixed.add(CPU)
    return all(often.count(index) == 1 for index in mixed)
