"""The amounts by which a pod is aligned, in the order of allocation."""

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
"""Indices of the first axis of the arrays, each with an amount."""


class AlignmentStep(NamedTuple):
    """What is aligned as one: a container, or the whole pod with scope pod."""

    hinted: IndexedAmounts
    """Amounts that are matched to zones."""
    amounts: IndexedAmounts
    """All amounts, from whatever zone."""
    sums_memory: bool = False
    """The memory is the sum of several containers. If the sum has no hint, the kubelet does not align the pod's memory.
    Each container may then still be allocated its own."""


class AlignmentRequest(NamedTuple):
    """The amounts of a pod on nodes of one layout."""

    steps: tuple[AlignmentStep, ...]
    """In the order of allocation, without containers that request nothing of the kind."""
    node_amounts: IndexedAmounts
    """The amounts that the node must have in sum, in whatever zone."""
    exclusive_cpus: int = 0
    """In sum."""
    impossible: bool = False
    """Every kubelet of this layout rejects such a pod."""
    exact: bool = True
    """False: arrays do not suffice. It is then necessary that each step alone fits on the node as it is."""


class _ContainerAmounts(NamedTuple):
    cpus: int
    memory: Amounts
    devices: Amounts


@lru_cache(maxsize=4096)
def alignment_request(layout: Layout, pod: PodShape) -> AlignmentRequest:
    """Return the amounts of a pod on nodes of a layout.

    Sources: pkg/kubelet/cm/topologymanager/scope_container.go, scope_pod.go; podGuaranteedCPUs(),
    getPodRequestedResources() and getPodDeviceRequest() of the three managers.
    """
    policies = layout.policies
    if uses_pod_level_managers(pod, policies):
        return AlignmentRequest((), (), exact=False)
    amounts_by_container = [(container, _container_amounts(container, pod, layout)) for container in pod.containers]
    requesting = [(container, amounts) for container, amounts in amounts_by_container if any(amounts)]
    exact = all(_leaves_nothing(container, amounts) for container, amounts in requesting) and _is_pinned_throughout(
        amounts_by_container, pod, policies
    )
    all_amounts = [amounts for _, amounts in requesting]
    if policies.topology == "none" or policies.scope != "pod":
        return _request(all_amounts, [_step(amounts, layout) for amounts in all_amounts], layout, exact=exact)
    sums_memory = sum(bool(amounts.memory) for amounts in all_amounts) > 1
    if exact and _sum_is_pod_request(requesting):
        return _request(
            all_amounts, [_step(_total(all_amounts), layout)._replace(sums_memory=sums_memory)], layout, exact=True
        )
    separate = [amounts._replace(memory=()) for amounts in all_amounts] if sums_memory else all_amounts
    return _request(all_amounts, [_step(amounts, layout) for amounts in separate], layout, exact=False)


def _request(
    all_amounts: list[_ContainerAmounts], steps: list[AlignmentStep], layout: Layout, *, exact: bool
) -> AlignmentRequest:
    counts = [amounts.cpus for amounts in all_amounts if amounts.cpus]
    unknown_memory = [
        size for amounts in all_amounts for name, size in amounts.memory if name not in layout.memory_index
    ]
    cores_are_exact = len(counts) < 2 or not layout.policies.full_cores or not layout.partly_reserved
    return AlignmentRequest(
        tuple(step for step in steps if step.amounts),
        _indexed(_total(all_amounts), layout) if exact else (),
        sum(counts) if exact else max(counts, default=0),
        impossible=any(unknown_memory) or not _fits_whole_cores(counts, layout) or not _kubelet_starts(layout),
        exact=exact and not unknown_memory and cores_are_exact and _counts_decide(steps, layout),
    )


def _container_amounts(container: Container, pod: PodShape, layout: Layout) -> _ContainerAmounts:
    policies = layout.policies
    return _ContainerAmounts(
        guaranteed_cpus(pod, container, policies) if policies.cpu == "static" else 0,
        memory_request(pod, container, policies) if pins_memory(pod, policies) else (),
        tuple(device for device in container.devices if device[0] in layout.device_index),
    )


def _leaves_nothing(container: Container, amounts: _ContainerAmounts) -> bool:
    """Tell whether the container leaves nothing to later ones, and requests no resource with a count of 0.

    A container that requests 0 of a resource is still aligned to its zones, and fails where none is healthy.
    """
    return container.role != "init" and all(count for _, count in amounts.devices)


def _is_pinned_throughout(
    amounts_by_container: list[tuple[Container, _ContainerAmounts]], pod: PodShape, policies: Policies
) -> bool:
    """Tell whether each container requests memory if the pod is pinned; the Memory Manager is irregular otherwise."""
    if not pins_memory(pod, policies):
        return True
    return all(any(name == MEMORY for name, _ in amounts.memory) for _, amounts in amounts_by_container)


def _sum_is_pod_request(requesting: list[tuple[Container, _ContainerAmounts]]) -> bool:
    """Tell whether the pod's request is the sum of its containers': memory types of sidecars alone are dropped."""
    app_types = {name for container, amounts in requesting if container.role == "app" for name, _ in amounts.memory}
    return all(name in app_types for _, amounts in requesting for name, _ in amounts.memory)


def _total(all_amounts: Iterable[_ContainerAmounts]) -> _ContainerAmounts:
    cpus, memory, devices = 0, dict[str, int](), dict[str, int]()
    for addend in all_amounts:
        cpus += addend.cpus
        for totals, amounts in ((memory, addend.memory), (devices, addend.devices)):
            for name, amount in amounts:
                totals[name] = totals.get(name, 0) + amount
    return _ContainerAmounts(cpus, tuple(memory.items()), tuple(devices.items()))


def _step(amounts: _ContainerAmounts, layout: Layout) -> AlignmentStep:
    """Return the amounts that are matched to zones under the layout's policies."""
    indexed = _indexed(amounts, layout)
    policy = layout.policies.topology
    if policy == "none" or (policy == "best-effort" and not amounts.memory):
        return AlignmentStep(_indexed(amounts._replace(cpus=0, devices=()), layout), indexed)
    return AlignmentStep(indexed, indexed)


def _indexed(amounts: _ContainerAmounts, layout: Layout) -> IndexedAmounts:
    cpus = ((CPU, amounts.cpus),) if amounts.cpus else ()
    memory = tuple((layout.memory_index[name], size) for name, size in amounts.memory if name in layout.memory_index)
    return cpus + memory + tuple((layout.device_index[name], count) for name, count in amounts.devices)


def _fits_whole_cores(counts: list[int], layout: Layout) -> bool:
    """Tell whether full-pcpus-only allows the numbers of CPUs (policy_static.go enforceSMTAlignment())."""
    threads = layout.cpus.cpus_per_core
    return not layout.policies.full_cores or not threads or all(count % threads == 0 for count in counts)


def _kubelet_starts(layout: Layout) -> bool:
    """Tell whether the kubelet starts on this number of zones (topology_manager.go NewManager)."""
    return layout.policies.topology == "none" or len(layout.zones) <= layout.policies.max_zones


def _counts_decide(steps: list[AlignmentStep], layout: Layout) -> bool:
    """Tell whether counts by zone determine the later steps after the earlier ones."""
    policies = layout.policies
    if len(steps) > 1 and policies.prefer_closest and layout.has_uneven_distances:
        return False
    hinted = [index for step in steps for index in {index for index, _ in step.hinted}]
    sensitive = {index for index in hinted if layout.localities[index] is ZoneLocality.MIXED}
    if policies.align_by_package:
        sensitive.add(CPU)
    return all(hinted.count(index) == 1 for index in sensitive)
