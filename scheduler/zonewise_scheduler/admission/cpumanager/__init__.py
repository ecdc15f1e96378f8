"""The kubelet's static CPU Manager, exact to the CPU (pkg/kubelet/cm/cpumanager).

Policies.release selects between the behaviours of releases 1.31 to 1.37:

- 1.31: if full-pcpus-only finds no whole core free, the message blames the request (smt_alignment_error). The options
  strict-cpu-reservation and prefer-align-cpus-by-uncorecache exist since 1.32.
- 1.32 and 1.33: prefer-align-cpus-by-uncorecache rounds down the number of cores that it takes within a cache
  (allocate_cpus).
- 1.34 and later: pods with pod-level resources get no exclusive CPUs (guaranteed_cpus).
- 1.36 and later: with the gate PodLevelResourceManagers, such pods get exclusive CPUs as a whole
  (uses_pod_level_managers, empty_shared_pool, divide_pod_cpus).
"""

from zonewise_scheduler.admission.cpumanager.accumulator import CpuAllocationError
from zonewise_scheduler.admission.cpumanager.cpu_hints import generate_cpu_topology_hints
from zonewise_scheduler.admission.cpumanager.guaranteed_cpus import (
    empty_shared_pool,
    guaranteed_cpus,
    pod_guaranteed_cpus,
    uses_pod_level_managers,
)
from zonewise_scheduler.admission.cpumanager.policy_static import allocate_cpus, divide_pod_cpus, smt_alignment_error

__all__ = [
    "CpuAllocationError",
    "allocate_cpus",
    "divide_pod_cpus",
    "empty_shared_pool",
    "generate_cpu_topology_hints",
    "guaranteed_cpus",
    "pod_guaranteed_cpus",
    "smt_alignment_error",
    "uses_pod_level_managers",
]
