"""CPUs: which the kubelet allocates exclusively, and which of these are free."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.usage.policies import is_cpu_manager_static
from zonewise.usage.stale_cpus import stale_cpus
from zonewise.usage.types import Amount
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.kubelet.types import KubeletReport
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone


class CpuUsage(NamedTuple):
    """The CPUs of the node."""

    allocatable: CpuSet
    free: CpuSet | None
    """None if no CPU is allocated exclusively."""
    reserved: CpuSet | None
    problems: tuple[str, ...] = ()

    def zone_amount(self, zone: Zone) -> Amount:
        """Return the number of CPUs of one zone."""
        allocatable = self.allocatable & zone.cpus
        available = allocatable if self.free is None else allocatable & self.free
        return Amount(len(zone.cpus), len(allocatable), len(available))

    def zone_free_cpus(self, zone: Zone) -> CpuSet | None:
        """Return the free CPUs of one zone."""
        return None if self.free is None else self.free & zone.cpus


def cpu_usage(machine: Machine, report: KubeletReport, excluded: CpuSet) -> CpuUsage:
    """Return which CPUs are allocatable and which are free; excluded CPUs count as reserved.

    Without the static policy every pod runs on all CPUs except those of reservedSystemCPUs.
    """
    zoned = CpuSet.union(zone.cpus for zone in machine.zones)
    online = machine.cpus.online | zoned
    if not is_cpu_manager_static(report):
        reserved = report.config.reserved_cpus if report.config is not None else None
        return CpuUsage(zoned - (reserved or EMPTY), None, reserved)
    allocatable = report.allocatable.cpus
    unknown = allocatable - zoned
    problems = (f"allocatable CPUs {unknown} belong to no zone of this machine and are not counted",) if unknown else ()
    usable = (allocatable & zoned) - excluded
    return CpuUsage(usable, _free(usable, report), online - allocatable, problems)


def _free(allocatable: CpuSet, report: KubeletReport) -> CpuSet:
    """Return the CPUs that the next admission can allocate.

    The kubelet allocates only CPUs of its default set (policy_static.go GetAvailableCPUs), after it has released the
    stale ones. CPUs of ended init containers are in neither. The file and List are read one after the other, so a CPU
    is free only if both show it as free.
    """
    listed: Iterable[CpuSet] = (container.cpus for pod in report.pods for container in pod.containers)
    state = report.state.cpu
    is_static = state is not None and state.policy_name == "static"
    shared = state.default_cpu_set | stale_cpus(report) if state is not None and is_static else allocatable
    return (allocatable & shared) - CpuSet.union(listed)
