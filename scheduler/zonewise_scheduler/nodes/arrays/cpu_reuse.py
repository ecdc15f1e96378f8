"""Bounds on the CPUs that are not free while the containers of a pod are allocated one after another.

An ordinary init container leaves its CPUs to later containers (staticPolicy.updateCPUsToReuse). Free and reusable CPUs
are taken in one order, so the CPU ids determine which of the two a container takes. Counts give bounds:

- Lower bound: each container first takes what it may reuse. This is exact if CPUs are taken in one order (cpu_unit).
- Upper bound: no container takes what it may reuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class CpuDemand(NamedTuple):
    """The CPUs that a pod needs over its containers in their order."""

    largest: int = 0
    """The largest request of a container."""
    whole_at_least: int = 0
    """Lower bound of the CPUs that must be free at first for full-pcpus-only, since it does not count reusable ones."""
    whole_at_most: int = 0
    """Number of CPUs that is enough for full-pcpus-only."""
    reuse_known: bool = True
    """True if counts determine, for each container with CPUs, whether any CPU is reusable."""


def cpu_demand(requests: Iterable[tuple[int, bool]], *, in_order: bool) -> CpuDemand:
    """Return the demand of containers, each with its CPUs and whether it is an ordinary init container.

    `in_order`: all CPUs are taken from one zone in one order.
    """
    held = reusable_least = reusable_most = 0
    demand = CpuDemand()
    for cpus, is_init in requests:
        if not cpus:
            continue
        demand = CpuDemand(
            max(demand.largest, cpus),
            max(demand.whole_at_least, held + reusable_least + cpus),
            max(demand.whole_at_most, held + reusable_most + cpus),
            demand.reuse_known and (reusable_least > 0) == (reusable_most > 0),
        )
        if is_init:
            reusable_least = max(reusable_least, cpus)
            reusable_most = reusable_least if in_order else reusable_most + cpus
            continue
        held += cpus
        reusable_least = max(0, reusable_least - cpus)
        reusable_most = reusable_least if in_order else reusable_most
    return demand
