"""CPUs packed into as few zones, packages and cores as can be (cpu_assignment.go takeByTopologyNUMAPacked)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.cpus.accumulator import Accumulator
from zonewise_scheduler.fit.kubelet.cpus.shortage import CpuShortage

if TYPE_CHECKING:
    from zonewise_scheduler.fit.model.cpus import CpuTopology
    from zonewise_scheduler.fit.model.node import Policies

_CACHES_GIVE_HALF_CORES = (1, 34)
"""The first release that rounds up the cores which the rest of a request needs of one uncore cache."""


def take_packed(topology: CpuTopology, free: int, count: int, policies: Policies) -> int:
    """Return the bits of so many CPUs of those that are free; raise CpuShortage where there are not enough."""
    if count < 1:
        return 0
    check_enough(free, count)
    chosen = Accumulator(topology, free, count)
    if topology.zones_hold_packages:
        chosen.take_whole_zones()
        chosen.take_whole_packages()
    else:
        chosen.take_whole_packages()
        chosen.take_whole_zones()
    if chosen.need and policies.align_by_cache and not policies.distribute_across_zones:
        chosen.take_caches(rounds_up=policies.release >= _CACHES_GIVE_HALF_CORES)
    if chosen.need and not policies.distribute_across_cores:
        chosen.take_whole_cores()
    if chosen.need and policies.distribute_across_cores:
        chosen.take_threads_in_turn()
    elif chosen.need:
        chosen.take_threads()
    return chosen.taken


def check_enough(free: int, count: int) -> None:
    """Raise CpuShortage where fewer than count CPUs are free."""
    available = free.bit_count()
    if count > available:
        raise CpuShortage(f"not enough cpus available to satisfy request: requested={count}, available={available}")
