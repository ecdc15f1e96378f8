"""CPUs packed into as few zones, packages and cores as possible (cpu_assignment.go takeByTopologyNUMAPacked)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager.accumulator import CpuAccumulator, CpuAllocationError

if TYPE_CHECKING:
    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import Policies

_CACHES_ROUND_UP = (1, 34)
"""The first release that rounds up the number of cores that the rest of a request takes from one uncore cache."""


def take_by_topology_numa_packed(topology: CpuTopology, free: int, count: int, policies: Policies) -> int:
    """Return the bits of `count` of the free CPUs; raise CpuAllocationError if there are not enough."""
    if not count:
        return 0
    check_enough(free, count)
    accumulator = CpuAccumulator(topology, free, count)
    if topology.numa_first:
        accumulator.take_full_numa_nodes()
        accumulator.take_full_sockets()
    else:
        accumulator.take_full_sockets()
        accumulator.take_full_numa_nodes()
    if accumulator.num_cpus_needed and policies.align_by_cache and not policies.distribute_across_zones:
        accumulator.take_uncore_cache(rounds_up=policies.release >= _CACHES_ROUND_UP)
    if accumulator.num_cpus_needed and not policies.distribute_across_cores:
        accumulator.take_full_cores()
    if accumulator.num_cpus_needed and policies.distribute_across_cores:
        accumulator.take_remaining_cpus_spread()
    elif accumulator.num_cpus_needed:
        accumulator.take_remaining_cpus_packed()
    return accumulator.result


def check_enough(free: int, count: int) -> None:
    """Raise CpuAllocationError if fewer than `count` CPUs are free."""
    available = free.bit_count()
    if count > available:
        raise CpuAllocationError(
            f"not enough cpus available to satisfy request: requested={count}, available={available}"
        )
