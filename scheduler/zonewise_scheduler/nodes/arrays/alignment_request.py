"""The amounts that determine the alignment of a pod, in the order of allocation."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.cpumanager import guaranteed_cpus, pod_guaranteed_cpus, uses_pod_level_managers
from zonewise_scheduler.admission.memorymanager.memory_requests import (
    memory_request,
    pins_memory,
    pod_memory_request,
)
from zonewise_scheduler.admission.pod import Container
from zonewise_scheduler.admission.pod_level_managers import empty_shared_pools
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests
from zonewise_scheduler.admission.resource_names import CPU as _CPUS
from zonewise_scheduler.admission.resource_names import MEMORY
from zonewise_scheduler.nodes.arrays.cpu_reuse import CpuDemand, cpu_demand
from zonewise_scheduler.nodes.arrays.layout import CPU, ZoneLocality
from zonewise_scheduler.nodes.filters.info_table import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.node import Policies
    from zonewise_scheduler.admission.pod import Amounts, PodShape
    from zonewise_scheduler.nodes.arrays.layout import Layout

IndexedAmounts = tuple[tuple[int, int], ...]
"""Indices into the first axis of the arrays, each with an amount."""


class AlignmentStep(NamedTuple):
    """A unit of alignment: a container, or the whole pod with scope pod."""

    hinted: IndexedAmounts
    """Amounts that are matched to zones."""
    amounts: IndexedAmounts
    """All amounts, from any zone."""
    own_memory: tuple[AlignmentStep, ...] = ()
    """Steps of the individual containers if the memory is the sum of several containers. If the sum has no hint, the
    kubelet does not align the pod's memory. Each container may then still be allocated its own."""
    is_init: bool = False
    """True for an ordinary init container: later steps may reuse its amounts."""
    unhinted_memory: IndexedAmounts = ()
    """Memory types that only init containers and sidecars request. The kubelet aligns the whole pod without them, but
    still allocates them from the pod's zone (getPodRequestedResources)."""

    @property
    def sums_memory(self) -> bool:
        """Return whether the memory is the sum of several containers."""
        return bool(self.own_memory)


class AlignmentRequest(NamedTuple):
    """The amounts of a pod on nodes of one layout."""

    steps: tuple[AlignmentStep, ...]
    """Steps in the order of allocation, without containers that request nothing to align."""
    node_amounts: IndexedAmounts
    """Amounts that the node must have in total, in any zones: the peak over the life of the pod."""
    cpus: CpuDemand = CpuDemand()
    """Demand for exclusive CPUs."""
    impossible: bool = False
    """True if every kubelet of this layout rejects such a pod."""
    exact: bool = True
    """False if arrays do not suffice. A necessary condition is then that each step by itself fits on the node as it
    is."""
    counts_cpus: bool = True
    """False if the kubelet may admit the pod although fewer CPUs are free. Then `exact` is False."""
    reuses: bool = False
    """True if containers reuse what ordinary init containers leave."""


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
    amounts_by_container = [(container, _container_amounts(container, pod, layout)) for container in pod.containers]
    requesting = [(container, amounts) for container, amounts in amounts_by_container if any(amounts)]
    exact = _is_pinned_throughout(amounts_by_container, pod, policies)
    if policies.topology == "none" or policies.scope != "pod":
        steps = [_step(amounts, layout, container) for container, amounts in requesting]
        return _request(requesting, _without_repeated_inits(steps, layout), layout, exact=exact)
    if uses_pod_level_managers(pod, policies):
        return _pod_level_request(pod, _peak(requesting), layout)
    return _request(requesting, [_pod_step(requesting, layout)], layout, exact=exact)


def _pod_step(requesting: list[tuple[Container, _ContainerAmounts]], layout: Layout) -> AlignmentStep:
    """Return the step of a whole pod: its peak, without memory types that only init containers and sidecars request."""
    peak = _peak(requesting)
    app_types = {name for container, amounts in requesting if container.role == "app" for name, _ in amounts.memory}
    hinted_memory = tuple(entry for entry in peak.memory if entry[0] in app_types)
    unhinted_memory = tuple(entry for entry in peak.memory if entry[0] not in app_types)
    own_memory = tuple(
        _step(_ContainerAmounts(0, amounts.memory, ()), layout, container)
        for container, amounts in requesting
        if amounts.memory
    )
    return _step(peak._replace(memory=hinted_memory), layout)._replace(
        own_memory=own_memory if len(own_memory) > 1 else (),
        unhinted_memory=_indexed(_ContainerAmounts(0, unhinted_memory, ()), layout),
    )


def _pod_level_request(pod: PodShape, peak: _ContainerAmounts, layout: Layout) -> AlignmentRequest:
    """Return the amounts of a pod whose CPUs and memory are allocated as a unit (AllocatePod).

    `peak`: the peak of its containers. A lack of devices rejects such a pod only if they have hints.
    """
    policies = layout.policies
    amounts = _ContainerAmounts(pod_guaranteed_cpus(pod, policies), pod_memory_request(pod, policies), ())
    devices = tuple(
        entry for entry in peak.devices if layout.localities[layout.device_index[entry[0]]] is not ZoneLocality.ANYWHERE
    )
    is_divisible = not amounts.cpus or (peak.cpus <= amounts.cpus and not policies.distribute_across_zones)
    request = _request(
        [(Container("", "app"), amounts)],
        [_step(amounts._replace(devices=devices), layout)],
        layout,
        exact=is_divisible,
    )
    return request._replace(impossible=request.impossible or bool(empty_shared_pools(pod, policies)))


def _request(
    requesting: list[tuple[Container, _ContainerAmounts]],
    steps: list[AlignmentStep],
    layout: Layout,
    *,
    exact: bool = True,
) -> AlignmentRequest:
    counts = [amounts.cpus for _, amounts in requesting if amounts.cpus]
    unknown_memory = [
        size for _, amounts in requesting for name, size in amounts.memory if name not in layout.memory_index
    ]
    cpus = cpu_demand(
        ((amounts.cpus, container.role == "init") for container, amounts in requesting),
        in_order=_takes_in_order(counts, steps, layout),
    )
    pinned = any(amounts.memory for _, amounts in requesting)
    runs = layout.kubelet_runs_pinned if pinned else layout.kubelet_runs
    counts_cpus = layout.counts_cpus or _is_counted_once(counts, layout)
    hints_cpus = any(index == CPU for step in steps for index, _ in step.hinted)
    return AlignmentRequest(
        tuple(step for step in steps if step.amounts),
        _indexed(_peak(requesting), layout),
        cpus,
        impossible=any(unknown_memory) or not _fits_whole_cores(counts, layout) or not runs,
        exact=exact
        and layout.has_verdicts
        and counts_cpus
        and not unknown_memory
        and (cpus.reuse_known or layout.fills_packages or len(steps) < 2 or not hints_cpus)
        and _counts_decide(steps, layout),
        counts_cpus=counts_cpus or layout.takes_free_cpus,
        reuses=any(container.role == "init" for container, _ in requesting),
    )


def _container_amounts(container: Container, pod: PodShape, layout: Layout) -> _ContainerAmounts:
    policies = layout.policies
    return _ContainerAmounts(
        guaranteed_cpus(pod, container, policies) if policies.cpu == "static" else 0,
        memory_request(pod, container, policies) if pins_memory(pod, policies) else (),
        tuple(device for device in container.devices if device[0] in layout.device_index),
    )


def _is_pinned_throughout(
    amounts_by_container: list[tuple[Container, _ContainerAmounts]], pod: PodShape, policies: Policies
) -> bool:
    """Return whether each container of a pinned pod requests memory; otherwise the Memory Manager is irregular."""
    if not pins_memory(pod, policies):
        return True
    return all(any(name == MEMORY for name, _ in amounts.memory) for _, amounts in amounts_by_container)


def _peak(requesting: Iterable[tuple[Container, _ContainerAmounts]]) -> _ContainerAmounts:
    """Return the maximum amounts that containers hold or may reuse at one time."""
    pairs = list(requesting)
    cpus = aggregate_container_requests((container.role, ((_CPUS, amounts.cpus),)) for container, amounts in pairs)
    memory = aggregate_container_requests((container.role, amounts.memory) for container, amounts in pairs)
    devices = aggregate_container_requests((container.role, amounts.devices) for container, amounts in pairs)
    return _ContainerAmounts(cpus.get(_CPUS, 0), tuple(memory.items()), tuple(devices.items()))


def _without_repeated_inits(steps: list[AlignmentStep], layout: Layout) -> list[AlignmentStep]:
    """Return the steps without init containers that equal the step before, unless nothing follows.

    If the first of them is allocated from one zone, the next ones reuse all that it leaves, and take nothing more.
    """
    if layout.policies.align_by_package:
        return steps
    distinct = steps[:1]
    for index, step in enumerate(steps[1:], 1):
        sensitive = any(layout.localities[resource] is ZoneLocality.MIXED for resource, _ in step.hinted)
        if not step.is_init or step != distinct[-1] or sensitive or index + 1 == len(steps):
            distinct.append(step)
    return distinct


def _takes_in_order(counts: list[int], steps: list[AlignmentStep], layout: Layout) -> bool:
    """Return whether all CPUs of a pod are taken from one zone in one order if each step is allocated from one zone.

    Under policy none, and with several zones for a whole pod, CPUs come from several zones.
    """
    policies = layout.policies
    by_zone = policies.scope != "pod" and all(step.hinted == step.amounts for step in steps)
    one_zone = policies.topology == "single-numa-node" or by_zone
    return one_zone and layout.cpu_unit > 0 and not any(count % layout.cpu_unit for count in counts)


def _step(amounts: _ContainerAmounts, layout: Layout, container: Container | None = None) -> AlignmentStep:
    """Return the amounts of a container or a whole pod that are matched to zones under the layout's policies."""
    indexed, is_init = _indexed(amounts, layout), container is not None and container.role == "init"
    policy = layout.policies.topology
    if policy == "none" or (policy == "best-effort" and not amounts.memory):
        return AlignmentStep(_indexed(amounts._replace(cpus=0, devices=()), layout), indexed, is_init=is_init)
    return AlignmentStep(indexed, indexed, is_init=is_init)


def _indexed(amounts: _ContainerAmounts, layout: Layout) -> IndexedAmounts:
    """Return the amounts by index, capped at more than any node has: sums may exceed 64 bits."""
    cpus = ((CPU, amounts.cpus),) if amounts.cpus else ()
    memory = tuple((layout.memory_index[name], size) for name, size in amounts.memory if name in layout.memory_index)
    devices = tuple((layout.device_index[name], count) for name, count in amounts.devices)
    return tuple((index, min(amount, MAX_AMOUNT)) for index, amount in cpus + memory + devices)


def _is_counted_once(counts: list[int], layout: Layout) -> bool:
    """Return whether the number of free CPUs decides even if Layout.counts_cpus does not hold.

    A second allocation finds more CPUs free than are counted. Under best-effort there are two allocations: first CPUs
    near some zones, then any CPUs.
    """
    policies = layout.policies
    once = len(counts) == 1 and policies.topology != "best-effort" and not policies.distribute_across_zones
    return once or not counts


def _fits_whole_cores(counts: list[int], layout: Layout) -> bool:
    """Return whether full-pcpus-only allows these numbers of CPUs (policy_static.go enforceSMTAlignment())."""
    return not layout.cpus_per_core or not any(count % layout.cpus_per_core for count in counts)


def _counts_decide(steps: list[AlignmentStep], layout: Layout) -> bool:
    """Return whether counts by zone determine how the earlier steps affect the later ones."""
    policies = layout.policies
    if len(steps) > 1 and layout.has_uneven_distances:
        return False
    hinted = [index for step in steps for index in {index for index, _ in step.hinted}]
    sensitive = {index for index in hinted if layout.localities[index] is ZoneLocality.MIXED}
    if policies.align_by_package and not layout.fills_packages:
        sensitive.add(CPU)
    return all(hinted.count(index) == 1 for index in sensitive)
