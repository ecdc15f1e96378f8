"""From the domains that take all pods down to the leaves, with as few domains at each level as can be.

pkg/cache/scheduler/tas_flavor_snapshot.go findTopologyAssignment, phase 2b. Down to the level of the outermost slices,
the children of all chosen domains are filled as one; below it, each domain's pods go to its own children, in multiples
of the inner layer's size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.tas.placement.domain_order import pod_counts, slice_counts, sorted_domains
from zonewise_scheduler.tas.placement.minimum_counts import DomainAllotment, update_counts_to_minimum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.tas.placement.fit_domains import FitDomains
    from zonewise_scheduler.tas.snapshot.domain_states import DomainStates
    from zonewise_scheduler.tas.tree.assignment_parameters import TopologyAssignmentParameters
    from zonewise_scheduler.tas.tree.topology_tree import TopologyTree


def assign_down_to_leaves(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    fit: FitDomains,
    shape: TopologyAssignmentParameters,
    *,
    per_domain: bool = False,
) -> DomainAllotment | None:
    """Return the pods that leaves get; None where the domains that were found have too little room after all.

    `apart`: each domain's pods go to its own children above the slices' level too.
    """
    need, leader = shape.slice_count, shape.has_leader
    share = _in_pods(
        update_counts_to_minimum(slice_counts(levels[fit.level]), fit.domains, need, shape, has_leader=leader),
        shape.slice_size,
    )
    for level in range(fit.level, len(levels) - 1):
        if share is None:
            return None
        if level < shape.slice_level and not per_domain:
            inner = levels[level + 1]
            order = sorted_domains(inner, tree.lower_level_domains(level, share.domains), shape)
            share = _in_pods(
                update_counts_to_minimum(slice_counts(inner), order, need, shape, has_leader=leader), shape.slice_size
            )
        else:
            share = _each(tree, levels, level, share, shape)
    return share


def _each(
    tree: TopologyTree,
    levels: Sequence[DomainStates],
    level: int,
    share: DomainAllotment,
    shape: TopologyAssignmentParameters,
) -> DomainAllotment | None:
    """Return what the children of each domain get of its pods."""
    inner, begins = levels[level + 1], tree.child_offsets[level]
    size = shape.slice_size if level < shape.slice_level else shape.slice_size_at_level.get(level + 1, 1)
    room = slice_counts(inner) if level < shape.slice_level else pod_counts(inner, size)
    found: list[DomainAllotment] = []
    for domain, pods, leaders in zip(
        share.domains.tolist(), share.units.tolist(), share.leader_count.tolist(), strict=True
    ):
        if pods or leaders:
            order = sorted_domains(inner, np.arange(int(begins[domain]), int(begins[domain + 1])), shape)
            one = update_counts_to_minimum(room, order, pods // size, shape, has_leader=leaders > 0)
            if one is None:
                return None
            found.append(one)
    if not found:
        return DomainAllotment(*(np.zeros(0, np.int64) for _ in DomainAllotment._fields))
    return _in_pods(DomainAllotment(*(np.concatenate(part) for part in zip(*found, strict=True))), size)


def _in_pods(share: DomainAllotment | None, size: int) -> DomainAllotment | None:
    return None if share is None else share._replace(units=share.units * size)
