"""All pods of a gang at once, or none."""

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

    from zonewise_scheduler.nodes.gang.snapshot import NodeSnapshot
    from zonewise_scheduler.nodes.gang.types import GangPodSet

DemandGroup = list[PodSetDemand]


def place_gang(snapshot: NodeSnapshot, pod_sets: Sequence[GangPodSet]) -> GangPlacement | GangDiagnosis:
    """Return where all pods of all sets go, or why there is no such place; nothing is taken by it.

    Exact for one set, whatever its levels: it is refused only if its pods do not fit. Several sets are placed one after
    the other, in a few orders, without taking back; a refusal of them is no proof. Every pod of a placement has been
    admitted by kubelet.admit on its node's state, after those before it. Equal input gives equal output.

    Raises ValueError for a snapshot whose parts have different numbers of rows, a set without pods, names that are not
    unique, a level that the snapshot does not have, and a group whose sets have different levels.
    """
    _check(snapshot, pod_sets)
    folds = SequentialVerdicts()
    demands = [PodSetDemand(snapshot, pods) for pods in pod_sets]
    left = tuple(sorted({name for pods in pod_sets for name in pods.constraints.scheduler_only}))
    reasons: GangDiagnosis | None = None
    for order in _orders(demands):
        found = _attempt(DraftPlacement(snapshot, folds), order, folds)
        if isinstance(found, DraftPlacement):
            return GangPlacement(
                tuple(found.placements[pods.name] for pods in pod_sets), tuple(found.placements), found.states, left
            )
        reasons = reasons or found._replace(scheduler_only=left)
    return reasons or GangPlacement((), (), {}, left)


def _orders(demands: list[PodSetDemand]) -> Iterator[list[DemandGroup]]:
    """Yield orders to place groups in: those with the least choice first; as given; the other way round."""
    given = _groups(demands)
    scarce = [sorted(group, key=_choice) for group in given]
    tried: list[list[DemandGroup]] = []
    for order in (sorted(scarce, key=lambda group: _choice(group[0])), given, given[::-1]):
        if order not in tried:
            tried.append(order)
            yield order


def _choice(demand: PodSetDemand) -> float:
    """Return how many times a set finds room, by itself."""
    return int(demand.pod_counts.sum()) / demand.pods.size


def _groups(demands: list[PodSetDemand]) -> list[DemandGroup]:
    """Return the sets that share a domain, groups in the order of their first sets."""
    found: dict[tuple[str, int], DemandGroup] = {}
    for place, demand in enumerate(demands):
        group = demand.pods.group
        found.setdefault((group, -1 if group else place), []).append(demand)
    return list(found.values())


def _attempt(
    draft: DraftPlacement, groups: list[DemandGroup], folds: SequentialVerdicts
) -> DraftPlacement | GangDiagnosis:
    """Place groups in their order."""
    for group in groups:
        found = _place_group(draft, group)
        if found is None:
            return explain(draft, group, folds)
        draft = found
    return draft


def _place_group(draft: DraftPlacement, group: DemandGroup) -> DraftPlacement | None:
    """Place sets in one domain of their level, or wherever they may."""
    levels, pods = draft.snapshot.levels, group[0].pods
    wished = pods.required or pods.preferred
    outwards = range(levels.keys.index(wished), -1, -1) if wished else range(0)
    for level in outwards[:1] if pods.required else outwards:
        found = _place_in_domain(draft, group, level)
        if found is not None or pods.required:
            return found
    made = draft.copy()
    rows = len(draft.snapshot.nodes)
    return (
        made if all(made.place_on_nodes_in_use(demand) or made.place(demand, 0, rows, 0) for demand in group) else None
    )


def _place_in_domain(draft: DraftPlacement, group: DemandGroup, level: int) -> DraftPlacement | None:
    """Place sets in the smallest domain that holds them all."""
    bounds = draft.snapshot.levels.bounds[level]
    for domain in _candidates(draft, group, level):
        made = draft.copy()
        begin, end = int(bounds[domain]), int(bounds[domain + 1])
        if all(made.place(demand, begin, end, level + 1) for demand in group):
            return made
    return None


def _candidates(draft: DraftPlacement, group: DemandGroup, level: int) -> list[int]:
    """Return the domains that hold each of the sets alone, best fit of the first one first."""
    totals = [draft.domain_pod_counts(demand, level) for demand in group]
    enough = np.logical_and.reduce([one >= demand.pods.size for one, demand in zip(totals, group, strict=True)])
    return [domain for domain in fitting_domains(totals[0], group[0].pods.size) if enough[domain]]


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
        own = (pods.required, pods.preferred)
        if pods.group and levels.setdefault(pods.group, own) != own:
            raise ValueError(f"pod set {pods.name}: another level than others of group {pods.group}")
