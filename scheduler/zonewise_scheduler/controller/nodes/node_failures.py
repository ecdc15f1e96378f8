"""Find the nodes that have failed for each workload, which status.unhealthyNodes must contain.

The planner replaces the pods of a single unhealthy node, and evicts a workload with several. A node has failed

- once it is deleted, or has no condition Ready;
- for a pod set that does not tolerate one of its taints with the effect NoExecute, not even temporarily;
- for a workload to which NodeView.is_closed applies, once a pod is to start there and none runs there any more;
- for a gang that avoids one of its conditions, once a pod of the gang is to start there and none is there yet.

The first two do not apply to a node that is idle (idle_nodes.py).

A node that is not Ready closes after a delay. Its pods may still run, and it often recovers before they are evicted.
Taints that only reflect the condition Ready do not count: the node controller sets them at once, before the delay
(pkg/controller/nodelifecycle). A node that recovers is removed from the list.

Source: Kueue's pkg/controller/tas/node_controller.go with the gates TASReplaceNodeOnPodTermination and
TASReplaceNodeOnNodeTaints. As there, a node that is not Ready, or has a taint with the effect NoSchedule, does not fail
while its pods continue to run. Kueue has neither a delay, nor idle nodes, nor conditions that gangs avoid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.taints import lasting_tolerations, tolerations_tolerate_taint
from zonewise_scheduler.controller.nodes.placements import nodes_by_pod_set
from zonewise_scheduler.controller.nodes.types import READINESS_TAINTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set

    from zonewise_common.k8s.taints import Taint, Toleration
    from zonewise_scheduler.controller.nodes.idle_nodes import IdleNodes
    from zonewise_scheduler.controller.nodes.types import NodeHealth
    from zonewise_scheduler.quota.api.workload_types import PodSetAdmission, Workload

CLOSING_DELAY = 30.0
"""Seconds until a node that is not Ready is closed (Kueue's pkg/controller/tas/constants.go NodeFailureDelay)."""

MAX_UNHEALTHY_NODES = 8
"""Maximum number of unhealthy nodes of a workload (apis/kueue/v1beta2 WorkloadStatus.unhealthyNodes)."""


def find_node_failures(
    nodes: Mapping[str, NodeHealth],
    workloads: Iterable[Workload],
    idle_nodes: IdleNodes,
    flavor_tolerations: Mapping[str, tuple[Toleration, ...]] | None = None,
    avoided: Mapping[str, Set[str]] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return the sorted lists of unhealthy nodes that differ from those of the workloads, which must have quota.

    `nodes`: by hostname, as in placements, and observed completely: a missing node counts as deleted.
    `flavor_tolerations`: by flavor, added to those of the pods. `avoided`: by key of a workload, hostnames of nodes on
    which none of its pods may start (NodeView.avoid).
    """
    failed = {name for name, health in nodes.items() if health.ready_since is None}
    tainted = {name: taints for name, health in nodes.items() if (taints := _evicting_taints(health))}
    healthy = nodes.keys() - failed - tainted.keys()
    changes: dict[str, tuple[str, ...]] = {}
    for workload in workloads:
        unhealthy: set[str] = set()
        for pod_set, names in _nodes_of(workload):
            unhealthy |= names & (avoided or {}).get(workload.key, frozenset())
            lost = names - healthy
            if lost:
                tolerations = _tolerations(workload, pod_set, flavor_tolerations or {})
                tolerated = {name for name in lost & tainted.keys() if _tolerates(tainted[name], tolerations)}
                lost -= tolerated - failed
            unhealthy |= idle_nodes.needed(workload, pod_set.name, lost, names)
        names = tuple(sorted(unhealthy)[:MAX_UNHEALTHY_NODES])
        if names != tuple(sorted(workload.unhealthy_nodes)):
            changes[workload.key] = names
    return changes


def closes_at(health: NodeHealth) -> float | None:
    """Return when a node closes because it is not Ready, seconds since 1970; None: it is Ready, or fails at once."""
    return None if health.ready or health.ready_since is None else health.ready_since + CLOSING_DELAY


def tolerates_taints(
    workload: Workload,
    pod_set: str,
    taints: Iterable[Taint],
    flavor_tolerations: Mapping[str, tuple[Toleration, ...]] | None = None,
) -> bool:
    """Return whether the pods of a pod set always tolerate these taints; a workload without quota has no such pods.

    `flavor_tolerations`: as in find_node_failures.
    """
    admissions = () if workload.admission is None else workload.admission.pod_sets
    return all(
        _tolerates(taints, lasting_tolerations(_tolerations(workload, admission, flavor_tolerations or {})))
        for admission in admissions
        if admission.name == pod_set
    )


def _evicting_taints(health: NodeHealth) -> tuple[Taint, ...]:
    return tuple(taint for taint in health.no_execute if taint.key not in READINESS_TAINTS)


def _nodes_of(workload: Workload) -> Iterator[tuple[PodSetAdmission, frozenset[str]]]:
    """Yield the pod sets whose placement names nodes, each with these nodes."""
    nodes = nodes_by_pod_set(workload) or {}
    for pod_set in workload.admission.pod_sets if workload.admission is not None else ():
        names = nodes.get(pod_set.name)
        if names is not None:
            yield pod_set, names


def _tolerations(
    workload: Workload, admission: PodSetAdmission, flavor_tolerations: Mapping[str, tuple[Toleration, ...]]
) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod set with those of its flavors."""
    own = (
        toleration
        for pod_set in workload.pod_sets
        if pod_set.name == admission.name
        for toleration in pod_set.tolerations
    )
    flavors = sorted(set(admission.flavors.values()))
    return (*own, *(toleration for flavor in flavors for toleration in flavor_tolerations.get(flavor, ())))


def _tolerates(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    return all(tolerations_tolerate_taint(taint, tolerations) for taint in taints)
