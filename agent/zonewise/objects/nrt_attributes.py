"""What a NodeResourceTopology object says of the node as a whole, in its top-level attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.objects.nrt_fields import format_amount
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise.kubelet.types import KubeletConfig
    from zonewise.machine.model.machine import Machine
    from zonewise.usage.types import Usage

Attribute = tuple[str, object]


def machine_attributes(machine: Machine) -> Iterator[Attribute]:
    """Yield what holds whether a kubelet was asked or not."""
    yield names.PROBLEMS, len(machine.problems)
    if machine.cores:
        # pkg/kubelet/cm/cpumanager/topology/topology.go CPUsPerCore(), which full-pcpus-only divides requests by
        yield names.THREADS_PER_CORE, sum(len(core.cpus) for core in machine.cores) // len(machine.cores)
    if machine.architecture == "x86_64":
        # the names and the form that NFD's topology updater has for hybrid x86 (after /sys/devices/cpu_core/cpus)
        known = {"performance": "cpu_core", "efficiency": "cpu_atom"}
        for kind in machine.core_kinds:
            if kind.kind in known:
                yield known[kind.kind], kind.cpus


def usage_attributes(usage: Usage | None, method: str, shown: Callable[[str], bool]) -> Iterator[Attribute]:
    """Yield what is in use beyond zones; every name is there even where nothing is, so that few bytes change later."""
    yield names.USAGE, names.USAGE_UNKNOWN if usage is None else names.USAGE_KNOWN
    if usage is None:
        return
    signs = {names.ALL_PODS: usage.fingerprint_all, names.EXCLUSIVE_PODS: usage.fingerprint_exclusive}
    yield names.PODS_FINGERPRINT, signs[method]
    yield names.PODS_FINGERPRINT_METHOD, method
    yield from ((names.FINGERPRINTS[name], sign) for name, sign in signs.items())
    yield names.RESERVED_CPUS, usage.reserved_cpus
    unzoned = {resource: format_amount(amount) for resource, amount in usage.unzoned.items() if shown(resource)}
    yield names.UNZONED_DEVICES, names.write_pairs(unzoned)
    shared = {
        f"{one.resource}@{'+'.join(map(str, one.zones))}": format_amount(one.amount)
        for one in usage.shared
        if shown(one.resource)
    }
    yield names.SHARED_DEVICES, names.write_pairs(shared) or None
    assigned = usage.memory_assigned
    yield names.MEMORY_ASSIGNED, CpuSet(assigned) if assigned is not None else None
    yield names.CLAIMED_DEVICES, names.write_pairs(usage.claimed)


def config_attributes(config: KubeletConfig | None) -> Iterator[Attribute]:
    """Yield the policies that decide about zones, with the kubelet's defaults filled in."""
    if config is None:
        return
    yield names.TOPOLOGY_MANAGER_POLICY, config.topology_manager_policy
    yield names.TOPOLOGY_MANAGER_SCOPE, config.topology_manager_scope
    yield names.TOPOLOGY_MANAGER_MAX_NUMA_NODES, config.max_allowable_numa_nodes()
    yield names.TOPOLOGY_MANAGER_OPTIONS, names.write_pairs(dict(config.topology_manager_options)) or None
    yield names.CPU_MANAGER_POLICY, config.cpu_manager_policy
    yield names.CPU_MANAGER_OPTIONS, names.write_pairs(dict(config.cpu_manager_options)) or None
    yield names.MEMORY_MANAGER_POLICY, config.memory_manager_policy
    gates = {name: str(on).lower() for name, on in config.feature_gates if name in names.DECISIVE_GATES}
    yield names.FEATURE_GATES, names.write_pairs(gates) or None
