"""One pod set, or a leader with its workers, over the levels of a tree.

pkg/cache/scheduler/tas_flavor_snapshot.go findTopologyAssignment: counts are worked out in the leaves and added up, the
level and its domains chosen, and the pods handed down from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.queue.topology.assignments import assignment_of
from zonewise_scheduler.queue.topology.balanced import balance
from zonewise_scheduler.queue.topology.counts import roll_up
from zonewise_scheduler.queue.topology.descend import descend
from zonewise_scheduler.queue.topology.leaves import leaves_of
from zonewise_scheduler.queue.topology.refusal import LayerFit, Refused
from zonewise_scheduler.queue.topology.search import Short, search
from zonewise_scheduler.queue.topology.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.queue.topology.counts import Counts
    from zonewise_scheduler.queue.topology.excluded import Excluded
    from zonewise_scheduler.queue.topology.model import Assignment, Options, PodSet
    from zonewise_scheduler.queue.topology.shape import Shape
    from zonewise_scheduler.queue.topology.spend import Share
    from zonewise_scheduler.queue.topology.supply import Supply
    from zonewise_scheduler.queue.topology.tree import Tree
    from zonewise_scheduler.queue.topology.usage import Usage


class Group(NamedTuple):
    """Pod sets that are placed together."""

    workers: PodSet
    leader: PodSet | None = None

    @property
    def sets(self) -> tuple[PodSet, ...]:
        """Return the pod sets."""
        return (self.workers,) if self.leader is None else (self.workers, self.leader)


def place_group(
    supply: Supply, group: Group, assumed: Usage, options: Options, within: tuple[int, int] | None = None
) -> dict[str, Assignment] | Refused:
    """Return where the pods go, by the name of the set; or why there is no place.

    `assumed`: what is promised beside what the supply knows to be used. `within`: the leaves that may hold them.
    """
    tree, workers, leader = supply.tree, group.workers, group.leader
    shape = shape_of(tree.keys, workers, options, leader=leader is not None)
    if isinstance(shape, str):
        return Refused(workers.name, tree.name, shape)
    if not tree.leaves:
        return Refused(workers.name, tree.name, f"no topology domains at level: {tree.keys[shape.level]}")
    bound = leader is not None or workers.most is not None or workers.beside is not None
    if not (bound or assumed or within is not None):
        return _again(supply, workers, shape, options)
    leaves, excluded = leaves_of(supply, workers, leader, assumed, within)
    return _placed(tree, roll_up(leaves, tree.begins, 0, shape), group, shape, lambda: excluded)


def _again(supply: Supply, pods: PodSet, shape: Shape, options: Options) -> dict[str, Assignment] | Refused:
    """Return where pods go, or why there is no place, that depend on nothing but what they ask for themselves."""
    standing = supply.standing(pods, shape)
    asked = pods.name, pods.size, pods.request, options
    found = standing.found.get(asked)
    if found is None:
        found = _placed(supply.tree, standing.levels, Group(pods), shape, standing.excluded)
        standing.found[asked] = found
    return found


def _placed(
    tree: Tree, levels: Sequence[Counts], group: Group, shape: Shape, excluded: Callable[[], Excluded]
) -> dict[str, Assignment] | Refused:
    share = _found(tree, levels, shape)
    if isinstance(share, Short):
        return _refused(tree, levels, shape, share, excluded(), group.workers.name)
    placed = {group.workers.name: assignment_of(tree, share.domains, share.units)}
    if group.leader is not None:
        placed[group.leader.name] = assignment_of(tree, share.domains, share.leaders)
    return placed


def _found(tree: Tree, levels: Sequence[Counts], shape: Shape) -> Share | Short:
    """Return the pods of the leaves: balanced, where that is asked for and can be."""
    even = balance(tree, levels, shape) if shape.balanced else None
    share = descend(tree, even.levels, even.found, shape, apart=True) if even is not None else None
    if share is not None:
        return share
    found = search(levels, shape)
    if isinstance(found, Short):
        return found
    return descend(tree, levels, found, shape) or Short(found.level, 0)


def _refused(
    tree: Tree, levels: Sequence[Counts], shape: Shape, short: Short, excluded: Excluded, name: str
) -> Refused:
    counts = levels[short.level]
    best = int(counts.slices.argmax())
    return Refused(
        name,
        tree.name,
        level=tree.keys[short.level] if shape.required else "",
        domain=tree.path(short.level, best) if shape.required else (),
        fits=short.slices,
        wanted=shape.slices,
        size=shape.size,
        layers=_layers(tree, levels, shape, short.level, best) if shape.sizes else (),
        excluded=excluded,
    )


def _layers(tree: Tree, levels: Sequence[Counts], shape: Shape, level: int, domain: int) -> tuple[LayerFit, ...]:
    """Return what would fit of each layer in a domain."""
    ranges = dict(zip(tree.keys[level:], tree.below(level, domain, domain + 1), strict=True))
    found: list[LayerFit] = []
    for key, size in shape.layers:
        pods = levels[tree.keys.index(key)].pods[slice(*ranges[key])]
        found.append(LayerFit(key, int(np.sum(pods // size)), shape.pods // size))
    return tuple(found)
