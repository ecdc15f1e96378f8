"""Nests CPU sets of any kinds of groups, in any order of inclusion; overlapping groups are split into parts.

A zone may contain packages or be contained in one, and an L3 may serve half a zone or two zones. Only the sets
determine the nesting.
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
    """A part of the machine with its CPUs. Of two parts with equal CPUs, the one with the lower rank is outside."""

    rank: int
    cpus: CpuSet
    part: Thing


class NestedGroup(NamedTuple):
    """One or more parts with equal CPUs, and the groups inside them."""

    cpus: CpuSet
    groups: tuple[CpuGroup, ...]
    children: tuple[NestedGroup, ...]


def nest(region: CpuSet, groups: Sequence[CpuGroup]) -> tuple[NestedGroup, ...]:
    """Return the outermost groups in a region, each with its inner groups, in the order of their first CPUs.

    Every CPU of a group is in the result. If two groups overlap and neither contains the other, the larger one remains
    whole. The other is split into its part inside the larger group and the rest.
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
