"""Assign held pods to the domains of their pod set's assignment (topology_ungater.go assignGatedPodsToDomains).

Invariant: at no time are more active pods pinned to a domain than are assigned to it. A pod is active until it has
terminated or no longer exists. Proof, for a domain to which n pods are assigned:

1. Active pods that are pinned to the domain are subtracted from n first. A pod that is being ungated counts as pinned.
2. A pod whose domain is unknown may be in any domain, so for each of them one pod fewer is ungated.
3. Held pods get only what remains.

Ranks decide if possible: each pod goes to the domain of its rank. While an active pod of the same rank terminates
there, no other pod replaces it. If ranks are unknown, not unique, or contradict the domains of running pods, the
domains are filled in sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.quota.topology.types import TopologyAssignment


class DomainAssigner:
    """Assigns the held pods of one pod set."""

    def __init__(
        self, assignment: TopologyAssignment, node_names: Mapping[str, str], unavailable: Collection[int] = ()
    ) -> None:
        """Set the assignment; `node_names`: by hostname. Domains with an index in `unavailable` get no pods now."""
        self._assignment = assignment
        self._unavailable = unavailable
        values = [domain.values for domain in assignment.domains]
        self._by_values = {value: index for index, value in enumerate(values)}
        self._by_node = (
            {node_names.get(value[-1], value[-1]): index for index, value in enumerate(values)}
            if assignment.levels and assignment.levels[-1] == HOSTNAME
            else {}
        )
        self._domain_of_rank = [index for index, domain in enumerate(assignment.domains) for _ in range(domain.pods)]

    def assign(self, pods: Sequence[ManagedPod], ranks: Mapping[str, int] | None) -> list[tuple[ManagedPod, int]]:
        """Return the pods that can be ungated now, each with the index of its domain.

        `pods`: all pods of the pod set that have not terminated. `ranks`: their ranks by UID; None: unknown.
        """
        held = sorted((pod for pod in pods if pod.is_held and not pod.terminating), key=lambda pod: _order(pod, ranks))
        located = {pod.uid: self._locate(pod) for pod in pods if not pod.is_held}
        room = [domain.pods for domain in self._assignment.domains]
        for domain in located.values():
            if domain is not None:
                room[domain] -= 1
        lost = sum(self._may_be_anywhere(pod, located[pod.uid]) for pod in pods if not pod.is_held)
        budget = sum(max(0, free) for free in room) - lost
        targets = self._by_rank(pods, ranks, located) if ranks is not None else None
        if targets is None:
            return self._in_order(held, room, budget)
        assigned: list[tuple[ManagedPod, int]] = []
        for pod in held:
            domain = targets.get(pod.uid)
            if domain is not None and room[domain] > 0 and domain not in self._unavailable and len(assigned) < budget:
                room[domain] -= 1
                assigned.append((pod, domain))
        return assigned

    def _in_order(self, held: Sequence[ManagedPod], room: list[int], budget: int) -> list[tuple[ManagedPod, int]]:
        rooms = (
            index for index, free in enumerate(room) if index not in self._unavailable for _ in range(max(0, free))
        )
        return list(zip(held[: max(0, budget)], rooms, strict=False))

    def _by_rank(
        self, pods: Sequence[ManagedPod], ranks: Mapping[str, int], located: Mapping[str, int | None]
    ) -> Mapping[str, int] | None:
        """Return the domain of each held pod whose rank is free; None: ranks cannot decide."""
        taken: set[int] = set()
        blocked: set[int] = set()
        for pod in pods:
            rank = ranks[pod.uid]
            if pod.is_held and pod.terminating:
                continue
            domain = self._domain_of_rank[rank] if rank < len(self._domain_of_rank) else None
            if pod.terminating:
                if located[pod.uid] == domain:
                    blocked.add(rank)
                continue
            if rank in taken or domain is None or (not pod.is_held and located[pod.uid] != domain):
                return None
            taken.add(rank)
        return {
            pod.uid: self._domain_of_rank[ranks[pod.uid]]
            for pod in pods
            if pod.is_held and not pod.terminating and ranks[pod.uid] not in blocked
        }

    def _locate(self, pod: ManagedPod) -> int | None:
        """Return the domain to which an ungated pod is pinned; None: unknown, or not in the assignment."""
        if self._by_node and (node := pinned_node(pod)):
            return self._by_node.get(node)
        return self._by_values.get(tuple(pod.node_selector.get(level, "") for level in self._assignment.levels))

    def _may_be_anywhere(self, pod: ManagedPod, domain: int | None) -> bool:
        """Return whether an ungated pod may run in any domain, because another client has removed its gate."""
        if domain is not None or (self._by_node and pinned_node(pod)):
            return False
        return not all(level in pod.node_selector for level in self._assignment.levels)


def _order(pod: ManagedPod, ranks: Mapping[str, int] | None) -> tuple[int, float, str]:
    return (0 if ranks is None else ranks[pod.uid], pod.created, pod.name)
