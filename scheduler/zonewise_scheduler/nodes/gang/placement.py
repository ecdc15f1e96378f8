"""Placement of all pods of a gang at once, or of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.nodes.gang.diagnosis import explain
from zonewise_scheduler.nodes.gang.draft_placement import DraftPlacement, PodSetDemand
from zonewise_scheduler.nodes.gang.node_selection import fitting_domains
from zonewise_scheduler.nodes.gang.sequential_verdicts import SequentialVerdicts
from zonewise_scheduler.nodes.gang.types import GangDiagnosis, GangPlacement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.nodes.gang.types import GangPodSet, NodeSnapshot

DemandGroup = list[PodSetDemand]


def place_gang(
    snapshot: NodeSnapshot, pod_sets: Sequence[GangPodSet], *, causes: bool = True
) -> GangPlacement | GangDiagnosis:
    """Return the nodes of all pods of all sets, or why there is no placement; the snapshot is not changed.

    For one set the result is exact at any level: the set is rejected only if its pods do not fit. Several sets are
    placed one after another, in a few orders and without backtracking, so their rejection proves nothing. For each pod
    of a placement, admission.admit admits the pod on its node's state, after the pods before it. Equal input gives
    equal output. `causes`: include the nodes' causes in a diagnosis; they cost far more than the rejection itself.

    Raises ValueError for a snapshot whose parts have different numbers of rows, a set without pods, or duplicate names.
    Also raises ValueError for an unknown level, and for a group whose sets have different levels.
    """
    _check(snapshot, pod_sets)
    verdicts = SequentialVerdicts()
    demands = [PodSetDemand(snapshot, pods) for pods in pod_sets]
    scheduler_only = tuple(sorted({name for pods in pod_sets for name in pods.constraints.scheduler_only}))
    diagnosis: GangDiagnosis | None = None
    for order in _orders(demands):
        outcome = _place_groups(DraftPlacement(snapshot, verdicts), order, verdicts, causes=causes)
        if isinstance(outcome, DraftPlacement):
            return GangPlacement(
                tuple(outcome.placements[pods.name] for pods in pod_sets),
                tuple(outcome.placements),
                outcome.states,
                scheduler_only,
            )
        diagnosis = diagnosis or outcome._replace(scheduler_only=scheduler_only)
    return diagnosis or GangPlacement((), (), {}, scheduler_only)


def _orders(demands: list[PodSetDemand]) -> Iterator[list[DemandGroup]]:
    """Yield orders of groups: scarcest first, as in the input, and reversed."""
    groups = _groups(demands)
    scarce_first = [sorted(group, key=_capacity_ratio) for group in groups]
    tried: list[list[DemandGroup]] = []
    for order in (sorted(scarce_first, key=lambda group: _capacity_ratio(group[0])), groups, groups[::-1]):
        if order not in tried:
            tried.append(order)
            yield order


def _capacity_ratio(demand: PodSetDemand) -> float:
    """Return how many times a set would fit by itself."""
    return int(demand.pod_counts.sum()) / demand.pods.size


def _groups(demands: list[PodSetDemand]) -> list[DemandGroup]:
    """Return the sets that share a domain; groups are in the order of their first sets."""
    groups: dict[tuple[str, int], DemandGroup] = {}
    for index, demand in enumerate(demands):
        group = demand.pods.group
        groups.setdefault((group, -1 if group else index), []).append(demand)
    return list(groups.values())


def _place_groups(
    draft: DraftPlacement, groups: list[DemandGroup], verdicts: SequentialVerdicts, *, causes: bool
) -> DraftPlacement | GangDiagnosis:
    """Place groups in their order."""
    for group in groups:
        next_draft = _place_group(draft, group)
        if next_draft is None:
            return explain(draft, group, verdicts, causes=causes)
        draft = next_draft
    return draft


def _place_group(draft: DraftPlacement, group: DemandGroup) -> DraftPlacement | None:
    """Place sets in one domain of their level, or on any nodes."""
    levels, pods = draft.snapshot.levels, group[0].pods
    level_key = pods.required or pods.preferred
    outward_levels = range(levels.keys.index(level_key), -1, -1) if level_key else range(0)
    for level in outward_levels[:1] if pods.required else outward_levels:
        placed = _place_in_domain(draft, group, level)
        if placed is not None or pods.required:
            return placed
    attempt = draft.copy()
    rows = len(draft.snapshot.nodes)
    fits = all(attempt.place_on_nodes_in_use(demand) or attempt.place(demand, 0, rows, 0) for demand in group)
    return attempt if fits else None


def _place_in_domain(draft: DraftPlacement, group: DemandGroup, level: int) -> DraftPlacement | None:
    """Place sets in the smallest domain that holds all of them."""
    bounds = draft.snapshot.levels.bounds[level]
    for domain in _candidates(draft, group, level):
        attempt = draft.copy()
        begin, end = int(bounds[domain]), int(bounds[domain + 1])
        if all(attempt.place(demand, begin, end, level + 1) for demand in group):
            return attempt
    return None


def _candidates(draft: DraftPlacement, group: DemandGroup, level: int) -> list[int]:
    """Return the domains that can hold each of the sets by itself, ordered by the fit of the first set, best first."""
    domain_counts = [draft.domain_pod_counts(demand, level) for demand in group]
    all_fit = np.logical_and.reduce(
        [counts >= demand.pods.size for counts, demand in zip(domain_counts, group, strict=True)]
    )
    return [domain for domain in fitting_domains(domain_counts[0], group[0].pods.size) if all_fit[domain]]


def _check(snapshot: NodeSnapshot, pod_sets: Sequence[GangPodSet]) -> None:
    levels: dict[str, tuple[str, str]] = {}
    rows = (snapshot.table.rows, len(snapshot.nodes), len(snapshot.levels.order))
    if len(set(rows)) > 1:
        raise ValueError(f"snapshot: tables of different numbers of rows: {', '.join(map(str, rows))}")
    if len({pods.name for pods in pod_sets}) < len(pod_sets):
        raise ValueError(f"pod sets: names are not unique: {', '.join(pods.name for pods in pod_sets)}")
    for pods in pod_sets:
        if pods.size < 1:
            raise ValueError(f"pod set {pods.name}: size: not a number of pods: {pods.size}")
        for level in (pods.required, pods.preferred):
            if level and level not in snapshot.levels.keys:
                raise ValueError(f"pod set {pods.name}: no level of the snapshot: {level}")
        set_levels = (pods.required, pods.preferred)
        if pods.group and levels.setdefault(pods.group, set_levels) != set_levels:
            raise ValueError(f"pod set {pods.name}: another level than others of group {pods.group}")
