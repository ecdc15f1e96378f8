"""CPUs packed into as few zones, packages and cores as can be (cpu_assignment.go takeByTopologyNUMAPacked)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager.accumulator import CpuAccumulator, CpuAllocationError

if TYPE_CHECKING:
    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import Policies

_CACHES_GIVE_HALF_CORES = (1, 34)
"""The first release that rounds up the cores which the rest of a request needs of one uncore cache."""


def take_by_topology_numa_packed(topology: CpuTopology, free: int, count: int, policies: Policies) -> int:
    """Return the bits of so many CPUs of those that are free; raise CpuShortage where there are not enough."""
    if count < 1:
        return 0
    check_enough(free, count)
    chosen = CpuAccumulator(topology, free, count)
    if topology.numa_first:
        chosen.take_full_numa_nodes()
        chosen.take_full_sockets()
    else:
        chosen.take_full_sockets()
        chosen.take_full_numa_nodes()
    if chosen.num_cpus_needed and policies.align_by_cache and not policies.distribute_across_zones:
        chosen.take_uncore_cache(rounds_up=policies.release >= _CACHES_GIVE_HALF_CORES)
    if chosen.num_cpus_needed and not policies.distribute_across_cores:
        chosen.take_full_cores()
    if chosen.num_cpus_needed and policies.distribute_across_cores:
        chosen.take_remaining_cpus_spread()
    elif chosen.num_cpus_needed:
        chosen.take_remaining_cpus_packed()
    return chosen.result


def check_enough(free: int, count: int) -> None:
    """Raise CpuShortage where fewer than count CPUs are free."""
    available = free.bit_count()
    if count > available:
        raise CpuAllocationError(
            f"not enough cpus available to satisfy request: requested={count}, available={available}"
        )
