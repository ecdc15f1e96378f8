"""Where the pods of a workload are, as books and kubelets have it: worked out once of each workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from zonewise_scheduler.tas.leaf_usage import LeafUsageChange
from zonewise_scheduler.tas.pod_set_placement import pod_set_placements
from zonewise_scheduler.tas.tree.tas_usage import one_pod_requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology
    from zonewise_scheduler.tas.pod_set_placement import PodSetPlacement


class Placement(NamedTuple):
    """The pods of a workload at their places."""

    usage_changes: tuple[LeafUsageChange, ...]
    """What they take, in all flavors that have their nodes."""
    on_nodes: tuple[tuple[PodSetPlacement, dict[int, int]], ...]
    """Those of which kubelets decide, set by set, and how many are on each node, by row."""
    stale: bool
    """Some of their places are no more."""
    pod_sets: tuple[PodSetPlacement, ...]


_NOWHERE = Placement((), (), stale=False, pod_sets=())


class Placements:
    """Those of the workloads that there are; copies of Topologies share it."""

    def __init__(self, flavor_topologies: Mapping[str, FlavorTopology]) -> None:
        self._grounds = flavor_topologies
        self._known: WeakKeyDictionary[Workload, Placement] = WeakKeyDictionary()
        nodes = [name for name, one in flavor_topologies.items() if one.tree.is_lowest_level_node]
        self._alike = {
            name: nodes if one.tree.is_lowest_level_node else [name] for name, one in flavor_topologies.items()
        }
        """The flavors that may have nodes in common with one."""

    def of_workload(self, workload: Workload, held: Workload | None = None) -> Placement:
        """Return where the pods of a workload's admission are, beyond those that it held before; leaders first."""
        if workload.admission is None:
            return _NOWHERE
        if held is not None and held.admission is not None:
            return self.of_pod_sets(pod_set_placements(workload, self._grounds.__contains__, held))
        found = self._known.get(workload)
        if found is None:
            found = self._known[workload] = self.of_pod_sets(pod_set_placements(workload, self._grounds.__contains__))
        return found

    def of_pod_sets(self, pod_sets: Sequence[PodSetPlacement]) -> Placement:
        """Return what pods take at their places."""
        if not pod_sets:
            return _NOWHERE
        changes: dict[tuple[str, str], dict[int, int]] = {}
        on_nodes: list[tuple[PodSetPlacement, dict[int, int]]] = []
        for one in pod_sets:
            for flavor in self._alike[one.flavor]:
                leaves = self._leaves(one, flavor)
                for resource, amount in one_pod_requests(one.single_pod_requests).items():
                    if amount > 0:
                        _add(changes.setdefault((flavor, resource), {}), leaves, amount)
            ground = self._grounds[one.flavor]
            if one.shape is not None and ground.tree.is_lowest_level_node:
                rows = {int(ground.leaf_rows[leaf]): pods for leaf, pods in self._leaves(one, one.flavor).items()}
                on_nodes += [(one, rows)] if rows else []
        stale = any(self._grounds[one.flavor].tree.stale_domain(one.assignment) for one in pod_sets)
        made = (LeafUsageChange(*of, tuple(found), tuple(found.values())) for of, found in changes.items() if found)
        return Placement(tuple(made), tuple(on_nodes), stale, tuple(pod_sets))

    def _leaves(self, spot: PodSetPlacement, flavor: str) -> dict[int, int]:
        """Return how many of the pods are in each leaf of a flavor; those in leaves that are no more are in none."""
        leaf_of = self._grounds[flavor].tree.find_leaf
        found: dict[int, int] = {}
        for values, pods in spot.assignment.domains:
            leaf = leaf_of(values)
            if leaf is not None:
                found[leaf] = found.get(leaf, 0) + pods
        return found


def _add(amounts: dict[int, int], pods: Mapping[int, int], each: int) -> None:
    for leaf, count in pods.items():
        amounts[leaf] = amounts.get(leaf, 0) + count * each
