"""Where the pods of a workload are, as books and kubelets have it: worked out once of each workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from zonewise_scheduler.queue.placing.books import Change
from zonewise_scheduler.queue.placing.pods import places_of
from zonewise_scheduler.queue.topology.usage import one_pod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.queue.placing.ground import Ground
    from zonewise_scheduler.queue.placing.pods import Spot
    from zonewise_scheduler.queue.quota.model.workload import Workload


class Stay(NamedTuple):
    """The pods of a workload at their places."""

    changes: tuple[Change, ...]
    """What they take, in all flavors that have their nodes."""
    on_nodes: tuple[tuple[Spot, dict[int, int]], ...]
    """Those of which kubelets decide, set by set, and how many are on each node, by row."""
    stale: bool
    """Some of their places are no more."""
    spots: tuple[Spot, ...]


_NOWHERE = Stay((), (), stale=False, spots=())


class Stays:
    """Those of the workloads that there are; copies of Topologies share it."""

    def __init__(self, grounds: Mapping[str, Ground]) -> None:
        self._grounds = grounds
        self._known: WeakKeyDictionary[Workload, Stay] = WeakKeyDictionary()
        nodes = [name for name, one in grounds.items() if one.tree.has_nodes]
        self._alike = {name: nodes if one.tree.has_nodes else [name] for name, one in grounds.items()}
        """The flavors that may have nodes in common with one."""

    def of(self, workload: Workload, held: Workload | None = None) -> Stay:
        """Return where the pods of a workload's admission are, beyond those that it held before; leaders first."""
        if workload.admission is None:
            return _NOWHERE
        if held is not None and held.admission is not None:
            return self.at(places_of(workload, self._grounds.__contains__, held))
        found = self._known.get(workload)
        if found is None:
            found = self._known[workload] = self.at(places_of(workload, self._grounds.__contains__))
        return found

    def at(self, spots: Sequence[Spot]) -> Stay:
        """Return what pods take at their places."""
        if not spots:
            return _NOWHERE
        changes: dict[tuple[str, str], dict[int, int]] = {}
        on_nodes: list[tuple[Spot, dict[int, int]]] = []
        for one in spots:
            for flavor in self._alike[one.flavor]:
                leaves = self._leaves(one, flavor)
                for resource, amount in one_pod(one.requests).items():
                    if amount > 0:
                        _add(changes.setdefault((flavor, resource), {}), leaves, amount)
            ground = self._grounds[one.flavor]
            if one.shape is not None and ground.tree.has_nodes:
                rows = {int(ground.rows[leaf]): pods for leaf, pods in self._leaves(one, one.flavor).items()}
                on_nodes += [(one, rows)] if rows else []
        stale = any(self._grounds[one.flavor].tree.stale(one.at) for one in spots)
        made = (Change(*of, tuple(found), tuple(found.values())) for of, found in changes.items() if found)
        return Stay(tuple(made), tuple(on_nodes), stale, tuple(spots))

    def _leaves(self, spot: Spot, flavor: str) -> dict[int, int]:
        """Return how many of the pods are in each leaf of a flavor; those in leaves that are no more are in none."""
        leaf_of = self._grounds[flavor].tree.leaf
        found: dict[int, int] = {}
        for values, pods in spot.at.domains:
            leaf = leaf_of(values)
            if leaf is not None:
                found[leaf] = found.get(leaf, 0) + pods
        return found


def _add(amounts: dict[int, int], pods: Mapping[int, int], each: int) -> None:
    for leaf, count in pods.items():
        amounts[leaf] = amounts.get(leaf, 0) + count * each
