"""Lost nodes that a workload no longer needs, because its pods there have succeeded.

An autoscaler removes a node once its pods have ended. Other pods of the same workload may still run elsewhere, so such
a node must not count as failed. A lost node is idle while these conditions hold:

1. All pods that its pod set needs were bound at once to existing nodes of its placement, and none of them to this node.
   This must hold only once: if a pod fails later, its replacement goes to the node of the failed pod.
2. The pod set has not needed more pods since then, as after a restart of a JobSet.
3. No pod is bound to the node, and the node has been lost since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from zonewise_scheduler.quota.api.workload_types import Workload


class IdleNodes:
    """Remembers the idle nodes of each pod set."""

    def __init__(self, bound_pods: Callable[[str], Sequence[tuple[str, str]]]) -> None:
        """`bound_pods` returns the pod set and the hostname of each active pod that a workload has on existing nodes.

        The pod set may be "" if there is only one.
        """
        self._bound_pods = bound_pods
        self._idle: dict[tuple[str, str], dict[str, int]] = {}
        """By workload and pod set: the idle nodes, each with the number of pods that were needed then."""

    def needed(self, workload: Workload, pod_set: str, lost: Set[str], placement: Set[str]) -> Set[str]:
        """Return the lost nodes that a pod set of a workload with quota still needs.

        `placement`: the nodes of the pod set. All are hostnames. A node with a new hostname is no longer one of them.
        """
        known = self._idle.pop((workload.key, pod_set), {})
        if not lost:
            return lost
        pods = workload.admitted_pod_sets[pod_set].pods
        nodes = [node for name, node in self._bound_pods(workload.key) if name in {"", pod_set} and node in placement]
        if len(nodes) >= pods:
            known |= dict.fromkeys(lost, pods)
        idle = {node: count for node, count in known.items() if node in lost and node not in nodes and pods <= count}
        if idle:
            self._idle[workload.key, pod_set] = idle
        return lost - idle.keys()

    def forget(self, workload: str, pod_sets: Set[str]) -> None:
        """Forget the pod sets of a workload, which has no quota any more."""
        for pod_set in pod_sets:
            self._idle.pop((workload, pod_set), None)
