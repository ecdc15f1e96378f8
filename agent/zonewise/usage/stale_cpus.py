"""Which entries of cpu_manager_state the kubelet releases before the next admission.

The CPU Manager releases the CPUs of pods that are not active before it computes hints and before it allocates
(pkg/kubelet/cm/cpumanager/cpu_manager.go, removeStaleState). The file keeps them until then, or until the end of the
reconcile period. List shows the active pods. It has no UIDs, but a CPU belongs to one pod:

- An entry with a CPU that List shows is the entry of that pod.
- An entry that has only init containers shares no CPU with List. It can be the entry of any listed pod that has no CPUs
  and no container of the entry's names. Such an entry counts as held: the kubelet itself settles it within the period.
- Every other entry is stale. So are entries of pods that are known to have ended.

While the kubelet's sources are not ready, it releases nothing. If List shows terminated pods too
(KubeletPodResourcesListUseActivePods off, or before 1.34), their entries count as held until the kubelet releases them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.kubelet.checkpoint import UNKNOWN_POD
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.kubelet.types import KubeletReport, PodResources


def stale_cpus(report: KubeletReport) -> CpuSet:
    """Return the CPUs of stale entries that are in no other entry."""
    state = report.state.cpu
    if state is None or not report.sources_ready:
        return EMPTY
    listed = CpuSet.union(container.cpus for pod in report.pods for container in pod.containers)
    without_cpus = _container_names(pod for pod in report.pods if not any(one.cpus for one in pod.containers))
    stale, held = EMPTY, EMPTY
    for uid, containers in state.entries.items():
        cpus = CpuSet.union(containers.values())
        names = frozenset(name for name, allocated in containers.items() if allocated)
        is_listed = not cpus.isdisjoint(listed)
        is_unclear = uid == UNKNOWN_POD or any(names.isdisjoint(others) for others in without_cpus)
        if is_listed or (is_unclear and uid not in report.ended):
            held |= cpus
        else:
            stale |= cpus
    return stale - held


def _container_names(pods: Iterable[PodResources]) -> set[frozenset[str]]:
    return {frozenset(container.name for container in pod.containers) for pod in pods}
