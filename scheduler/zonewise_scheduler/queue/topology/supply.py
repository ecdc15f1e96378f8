"""What the leaves of a tree have room for: nodes by their allocatable resources, pods and filters.

pkg/cache/scheduler/tas_flavor_snapshot.go fillLeafCounts.
"""

from __future__ import annotations

from collections import OrderedDict
from copy import copy
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Protocol

import numpy as np

from zonewise_scheduler.fit.nodes.constraints import Constraints
from zonewise_scheduler.fit.nodes.requests import NOTHING
from zonewise_scheduler.fit.nodes.table import OUTCOMES, UNKNOWN
from zonewise_scheduler.queue.topology.nodes import NodeLeaves
from zonewise_scheduler.queue.topology.standing import Standing
from zonewise_scheduler.queue.topology.usage import one_pod

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.fit.nodes.taints import Toleration
    from zonewise_scheduler.queue.topology.model import PodSet
    from zonewise_scheduler.queue.topology.nodes import Matched
    from zonewise_scheduler.queue.topology.shape import Shape
    from zonewise_scheduler.queue.topology.tree import Tree
    from zonewise_scheduler.queue.topology.usage import Usage

_UNSCHEDULABLE, _UNKNOWN = (OUTCOMES.index(one) for one in ("NodeUnschedulable", UNKNOWN))
_KEPT = 1 << 19
"""Leaves for which it is kept what they take of pods of some kind, of all kinds together."""


def eligible(nodes: NodeTable, labels: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return which rows have a node that is schedulable and has the labels of a resource flavor; (rows,).

    pkg/cache/scheduler/tas_nodes_cache.go sync, find: of these the ready ones make up the tree.
    """
    found = ~np.isin(nodes.refused(Constraints(NOTHING)), (_UNKNOWN, _UNSCHEDULABLE))
    for key, value in labels.items():
        found &= nodes.label(key).mask(partial(eq, value))
    return found


class Supply(Protocol):
    """Leaves, whatever they are: what of each is free, and who may go there."""

    @property
    def tree(self) -> Tree:
        """Return the tree they are leaves of."""
        ...

    def free(self, resource: str) -> NDArray[np.int64]:
        """Return what is left of a resource; (leaves,), milli-CPU, bytes or counts, below 0 where more is used.

        Not to be changed.
        """
        ...

    def matched(self, pods: PodSet) -> Matched:
        """Return which leaves the pods of a set may go to."""
        ...

    def standing(self, pods: PodSet, shape: Shape) -> Standing:
        """Return what domains take of the pods of a set by its requests and filters alone; good until others ask."""
        ...


class NodeSupply:
    """Leaves that are nodes, or groups of nodes where the Topology ends at racks.

    `nodes` counts the pods that no topology assignment accounts for, `used` those that one does.
    """

    def __init__(
        self, tree: Tree, nodes: NodeTable, used: Usage | None = None, tolerations: Sequence[Toleration] = ()
    ) -> None:
        """Take the nodes, what pods use of them, and the tolerations that pods get in addition to their own."""
        self._leaves = NodeLeaves(tree, nodes, tolerations)
        self._used: Usage = used or {}
        self._free: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        """By resource: what there is, and what of it is left."""
        self._standing: OrderedDict[Hashable, Standing] = OrderedDict()

    def beside(self, used: Usage) -> NodeSupply:
        """Return the same leaves with another usage; they share what is known of nodes, and of kinds of pods."""
        other = copy(self)
        other._used, other._free = used, {}
        return other

    @property
    def tree(self) -> Tree:
        """Return the tree of the nodes."""
        return self._leaves.tree

    def free(self, resource: str) -> NDArray[np.int64]:
        """Return what is left of a resource by leaf; (leaves,), not to be changed."""
        have = self._leaves.have(resource)
        if resource not in self._used:
            return have
        known = self._free.get(resource)
        if known is None or known[0] is not have:
            known = self._free[resource] = have, have - self._used[resource]
        return known[1]

    def matched(self, pods: PodSet) -> Matched:
        """Return which leaves the pods of a set may go to."""
        return self._leaves.matched(pods.constraints, pods.preferences)

    def standing(self, pods: PodSet, shape: Shape) -> Standing:
        """Return what domains take of the pods of a set by its requests and filters alone; good until others ask."""
        requests, matched = one_pod(pods.requests), self.matched(pods)
        slices = shape.slice_level, shape.size, *shape.sizes.items()
        # nothing used is a state of its own: it is asked for again and again beside what is now
        kind = (bool(self._used), tuple(requests.items()), pods.constraints, pods.preferences, slices)
        found = self._standing.pop(kind, None)
        if found is None or found.matched is not matched:
            found = Standing(self.tree, requests, matched, shape)
        found.update({name: self.free(name) for name in requests})
        self._standing[kind] = found
        while len(self._standing) > max(_KEPT // max(self.tree.leaves, 1), 8):
            self._standing.popitem(last=False)
        return found
