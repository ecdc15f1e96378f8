"""All pod sets of a workload over the levels of one topology, or none.

pkg/cache/scheduler/tas_flavor_snapshot.go FindTopologyAssignmentsForFlavor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.topology.elastic import resized
from zonewise_scheduler.queue.topology.group import Group, place_group
from zonewise_scheduler.queue.topology.model import Assignment, Options
from zonewise_scheduler.queue.topology.refusal import Refused
from zonewise_scheduler.queue.topology.usage import with_pods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.queue.topology.model import PodSet
    from zonewise_scheduler.queue.topology.supply import Supply
    from zonewise_scheduler.queue.topology.usage import Usage

_DEFAULTS = Options()


class Placed(NamedTuple):
    """Room for all pods; nothing is taken by it."""

    assignments: dict[str, Assignment]
    """By the name of the set."""


def place(
    supply: Supply, pod_sets: Sequence[PodSet], options: Options = _DEFAULTS, assumed: Usage | None = None
) -> Placed | Refused:
    """Return where all pods of all sets go, or why there is no such place; `assumed` is used beside what is known.

    Exact for one set, or one leader with its workers: it is refused only if there is no place. Several are placed one
    after the other, without taking back. Equal input gives equal output, whatever the order of nodes.

    Raises ValueError for a negative number of pods, names that are not unique, and a group that is not a leader, which
    is one pod, and its workers.
    """
    _check(pod_sets)
    placed: dict[str, Assignment] = {}
    usage: Usage = assumed or {}
    before: Sequence[PodSet] = ()
    for group in _groups(pod_sets):
        for one in before:
            usage = with_pods(supply.tree, usage, placed[one.name], one.requests)
        found = resized(supply, group, usage, options) if options.elastic else None
        if found is None:
            found = place_group(supply, group, usage, options)
        if isinstance(found, Refused):
            return found
        placed |= found
        before = group.sets
    return Placed(placed)


def _groups(pod_sets: Sequence[PodSet]) -> list[Group]:
    """Return the sets that are placed together, in the order of their first ones; the smaller of two is the leader."""
    found: dict[tuple[str, int], list[PodSet]] = {}
    for number, one in enumerate(pod_sets):
        found.setdefault((one.group, -1 if one.group else number), []).append(one)
    groups: list[Group] = []
    for sets in found.values():
        if len(sets) == 1:
            groups.append(Group(sets[0]))
            continue
        first, second = sets
        groups.append(Group(second, first) if second.size > first.size else Group(first, second))
    return groups


def _check(pod_sets: Sequence[PodSet]) -> None:
    sizes: dict[str, list[int]] = {}
    for one in pod_sets:
        if one.size < 0:
            raise ValueError(f"pod set {one.name}: size: negative: {one.size}")
        if one.group:
            sizes.setdefault(one.group, []).append(one.size)
    if len({one.name for one in pod_sets}) < len(pod_sets):
        raise ValueError(f"pod sets: names are not unique: {', '.join(one.name for one in pod_sets)}")
    for group, counts in sizes.items():
        if len(counts) > 2 or (len(counts) == 2 and min(counts) != 1):
            raise ValueError(f"group {group}: not a leader of one pod and its workers: {counts}")
