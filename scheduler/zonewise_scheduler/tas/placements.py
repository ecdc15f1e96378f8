"""Placements of workloads, as changes of leaf usage and as pods on nodes; computed once for each workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from zonewise_scheduler.tas.leaf_usage import LeafUsageChange
from zonewise_scheduler.tas.pod_set_placement import pod_set_placements
from zonewise_scheduler.tas.tree.tas_usage import with_pod_resource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology
    from zonewise_scheduler.tas.pod_set_placement import PodSetPlacement


class Placement(NamedTuple):
    """The pods of a workload on their leaves."""

    usage_changes: tuple[LeafUsageChange, ...]
    """The pods' usage, in all flavors that contain their nodes."""
    on_nodes: tuple[tuple[PodSetPlacement, dict[int, int]], ...]
    """The pod sets that kubelets must admit, each with its number of pods by row of the node."""
    stale: bool
    """Whether an assignment contains a domain that is not in the tree."""
    pod_sets: tuple[PodSetPlacement, ...]


_EMPTY = Placement((), (), stale=False, pod_sets=())


class Placements:
    """A cache of the placements of workloads; copies of a TASSnapshot share it, even across threads.

    A placement depends only on the workload and the trees, which do not change. Nothing iterates over the cache.
    """

    def __init__(self, flavor_topologies: Mapping[str, FlavorTopology]) -> None:
        self._flavor_topologies = flavor_topologies
        self._cache: WeakKeyDictionary[Workload, Placement] = WeakKeyDictionary()
        node_flavors = [name for name, topology in flavor_topologies.items() if topology.tree.is_lowest_level_node]
        self._overlapping_flavors = {
            name: node_flavors if topology.tree.is_lowest_level_node else [name]
            for name, topology in flavor_topologies.items()
        }
        """By flavor: the flavors that may have nodes in common with it, itself included."""

    def get(self, workload: Workload, held: Workload | None = None) -> Placement:
        """Return the placement of a workload's admission beyond that of `held`, in the order of the search."""
        if workload.admission is None:
            return _EMPTY
        has_topology = self._flavor_topologies.__contains__
        if held is not None and held.admission is not None:
            return self.compute(pod_set_placements(workload, has_topology, held))
        placement = self._cache.get(workload)
        if placement is None:
            placement = self._cache[workload] = self.compute(pod_set_placements(workload, has_topology))
        return placement

    def compute(self, pod_sets: Sequence[PodSetPlacement]) -> Placement:
        """Return the placement that consists of these pod sets."""
        if not pod_sets:
            return _EMPTY
        amounts: dict[tuple[str, str], dict[int, int]] = {}
        on_nodes: list[tuple[PodSetPlacement, dict[int, int]]] = []
        for pod_set in pod_sets:
            for flavor in self._overlapping_flavors[pod_set.flavor]:
                pods_by_leaf = self._pods_by_leaf(pod_set, flavor)
                for resource, amount in with_pod_resource(pod_set.single_pod_requests).items():
                    if amount > 0:
                        _add_usage(amounts.setdefault((flavor, resource), {}), pods_by_leaf, amount)
            topology = self._flavor_topologies[pod_set.flavor]
            if pod_set.shape is not None and topology.tree.is_lowest_level_node:
                pods_by_leaf = self._pods_by_leaf(pod_set, pod_set.flavor)
                pods_by_row = {int(topology.leaf_rows[leaf]): pods for leaf, pods in pods_by_leaf.items()}
                on_nodes += [(pod_set, pods_by_row)] if pods_by_row else []
        changes = tuple(
            LeafUsageChange(flavor, resource, tuple(by_leaf), tuple(by_leaf.values()))
            for (flavor, resource), by_leaf in amounts.items()
            if by_leaf
        )
        stale = any(
            self._flavor_topologies[pod_set.flavor].tree.stale_domain(pod_set.assignment) for pod_set in pod_sets
        )
        return Placement(changes, tuple(on_nodes), stale, tuple(pod_sets))

    def _pods_by_leaf(self, pod_set: PodSetPlacement, flavor: str) -> dict[int, int]:
        """Return the number of pods by leaf of a flavor; domains that are not in its tree are left out."""
        find_leaf = self._flavor_topologies[flavor].tree.find_leaf
        pods_by_leaf: dict[int, int] = {}
        for values, pods in pod_set.assignment.domains:
            leaf = find_leaf(values)
            if leaf is not None:
                pods_by_leaf[leaf] = pods_by_leaf.get(leaf, 0) + pods
        return pods_by_leaf


def _add_usage(amounts: dict[int, int], pods_by_leaf: Mapping[int, int], amount_per_pod: int) -> None:
    for leaf, pods in pods_by_leaf.items():
        amounts[leaf] = amounts.get(leaf, 0) + pods * amount_per_pod
