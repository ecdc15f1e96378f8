"""Puts CPU sets into one another: any kinds of groups, in any order of inclusion, overlapping ones in parts.

A zone may hold packages or be held by one, an L3 may serve half a zone or two zones: the sets themselves say which is
inside which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.render.boxes import union
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise.machine.model.cpu import Cache, Cluster, Die, Group, Package
    from zonewise.machine.model.zone import Zone

    Thing = Package | Die | Group | Zone | Cluster | Cache


class CpuGroup(NamedTuple):
    """Something that has CPUs, with the rank of its kind: of two with the same CPUs the lower rank is outside."""

    rank: int
    cpus: CpuSet
    part: Thing


class NestedGroup(NamedTuple):
    """One or several things of the same CPUs, and what is inside."""

    cpus: CpuSet
    groups: tuple[CpuGroup, ...]
    children: tuple[NestedGroup, ...]


def nest(region: CpuSet, groups: Sequence[CpuGroup]) -> tuple[NestedGroup, ...]:
    """Return what is outermost in a region, each with what is inside, in the order of their first CPUs.

    Every CPU of a group is in the result; where two groups overlap, neither inside the other, the larger stays whole
    and of the other the part within it and the part beside it stand apart.
    """
    nodes: list[NestedGroup] = []
    covered = CpuSet()
    inner = [(group.cpus & region, group) for group in groups]
    for cpus, _ in sorted(inner, key=lambda pair: (-len(pair[0]), pair[1].rank)):
        own = cpus - covered
        if not own:
            continue
        covered |= own
        things = tuple(sorted((group for held, group in inner if own <= held), key=lambda group: group.rank))
        rest = [group for held, group in inner if not own <= held and not own.isdisjoint(held)]
        nodes.append(NestedGroup(own, things, nest(own, rest)))
    return tuple(sorted(nodes, key=lambda node: node.cpus.first()))


def remaining_cpus(node_cpus: CpuSet, children: Sequence[NestedGroup]) -> CpuSet:
    """Return the CPUs that are in none of the children."""
    return node_cpus - union(tuple(child.cpus for child in children))
