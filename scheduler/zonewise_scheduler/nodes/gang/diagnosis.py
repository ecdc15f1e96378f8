"""Why a gang finds no place, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_common.k8s.taints import find_matching_untolerated_taint
from zonewise_scheduler.admission.explain.phrases import amount, count
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import CPU, PODS
from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins
from zonewise_scheduler.nodes.filters.info_table import OUTCOMES, UNKNOWN
from zonewise_scheduler.nodes.gang.types import Cause, GangDiagnosis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.gang.draft_placement import DraftPlacement, PodSetDemand
    from zonewise_scheduler.nodes.gang.sequential_verdicts import SequentialVerdicts
    from zonewise_scheduler.nodes.gang.snapshot import NodeSnapshot

_TAKEN = "what they have left is given to other pods of the gang"

_ASKED = 64
"""Distinct states of refused nodes that kubelets are asked about; each costs a verdict."""


def explain(draft: DraftPlacement, group: list[PodSetDemand], folds: SequentialVerdicts) -> GangDiagnosis:
    """Return why sets that share a domain are not placed beside the pods of a draft: of the one that lacks most."""
    room = [draft.pod_counts(demand) for demand in group]
    fits = [int(one.sum()) for one in room]
    level = group[0].pods.required
    if not level or any(fit < demand.pods.size for fit, demand in zip(fits, group, strict=True)):
        worst = min(range(len(group)), key=lambda one: fits[one] / group[one].pods.size)
        return _reasons(draft, group[worst], folds, fits[worst])
    place = draft.snapshot.levels.keys.index(level)
    totals = [draft.domain_pod_counts(demand, place) for demand in group]
    most = [int(one.max(initial=0)) for one in totals]
    worst = min(range(len(group)), key=lambda one: most[one] / group[one].pods.size)
    domain = _domain(draft.snapshot, place, int(totals[worst].argmax())) if most[worst] else ""
    found = _reasons(draft, group[worst], folds, fits[worst])
    return found._replace(level=level, domain=domain, domain_pods=most[worst])


def _reasons(draft: DraftPlacement, demand: PodSetDemand, folds: SequentialVerdicts, fits: int) -> GangDiagnosis:
    room = np.zeros(len(demand.filter_codes), np.int64)
    room[draft.snapshot.levels.order] = draft.pod_counts(demand)
    rows = np.flatnonzero(room == 0)
    causes = [*_filtered(draft.snapshot, demand, rows), *_kubelets(draft, demand, rows, folds)]
    causes.sort(key=lambda cause: (-cause.nodes, cause.reason, cause.message))
    return GangDiagnosis(demand.pods.name, demand.pods.size, min(fits, demand.pods.size), tuple(causes))


def _domain(snapshot: NodeSnapshot, level: int, domain: int) -> str:
    """Return the label's value of a domain."""
    row = int(snapshot.levels.order[snapshot.levels.bounds[level][domain]])
    info = snapshot.nodes.infos[row]
    return (info.label(snapshot.levels.keys[level]) if info is not None else None) or ""


# --- nodes that a filter refuses


def _filtered(snapshot: NodeSnapshot, demand: PodSetDemand, rows: NDArray[np.int64]) -> Iterator[Cause]:
    for place, outcome in enumerate(OUTCOMES):
        some = rows[demand.filter_codes[rows] == place]
        if not place or not some.size:
            continue
        if outcome == UNKNOWN:
            yield Cause(some.size, "", "nothing is known of them but their zones")
        elif outcome == "TaintToleration":
            yield from _tainted(snapshot, demand, some)
        elif outcome == "NodeResourcesFit":
            yield from _short(snapshot, demand, some)
        else:
            info = snapshot.nodes.infos[int(some[0])]
            found = None if info is None else run_filter_plugins(demand.pods.constraints, info)
            yield Cause(some.size, outcome, found.reason if found is not None else outcome)


def _tainted(snapshot: NodeSnapshot, demand: PodSetDemand, rows: NDArray[np.int64]) -> Iterator[Cause]:
    counts: dict[str, int] = {}
    for taints, many in snapshot.nodes.taints(rows):
        name = str(find_matching_untolerated_taint(taints, demand.pods.constraints.tolerations))
        counts[name] = counts.get(name, 0) + many
    for name, many in counts.items():
        yield Cause(many, "TaintToleration", f"the taint {name} is not tolerated")


def _short(snapshot: NodeSnapshot, demand: PodSetDemand, rows: NDArray[np.int64]) -> Iterator[Cause]:
    """Yield what there is too little of, each node counted for the first such resource."""
    for name, size in amounts_by_resource(demand.pods.constraints.requests):
        left = snapshot.nodes.available(name)[rows]
        some = left < size
        if size and some.any():
            most = max(int(left[some].max()), 0)
            told = f"needs {_needed(name, size)} of the whole node; no more than {_left(name, most)} left"
            yield Cause(int(some.sum()), "NodeResourcesFit", told if name != PODS else "too many pods")
            rows = rows[~some]


def _needed(resource: str, size: int) -> str:
    return f"{size / 1000:g} CPUs" if resource == CPU else amount(resource, size)


def _left(resource: str, size: int) -> str:
    return f"{size / 1000:g}" if resource == CPU else count(resource, size)


# --- nodes whose kubelets refuse


def _kubelets(
    draft: DraftPlacement, demand: PodSetDemand, rows: NDArray[np.int64], folds: SequentialVerdicts
) -> Iterator[Cause]:
    """Yield the kubelets' reasons, alike ones together, and how many nodes were not asked."""
    by_state: dict[NodeState | None, list[int]] = {}
    for row in rows[demand.filter_codes[rows] == 0].tolist():
        by_state.setdefault(draft.state(row), []).append(row)
    if None in by_state:
        yield Cause(len(by_state[None]), "", "there is no report of their zones")
    states = [(state, rows) for state, rows in by_state.items() if state is not None]
    asked = states[:: -(-len(states) // _ASKED) or 1]
    found: dict[tuple[str, str, str], list[tuple[str, list[int]]]] = {}
    for state, alike in asked:
        verdict = folds.verdict(state, demand.pods.shape)
        told = _TAKEN if verdict.admitted else explain_rejection(state, demand.pods.shape, verdict)
        found.setdefault((verdict.reason, verdict.container, verdict.resource), []).append((told, alike))
    for (reason, _, _), some in found.items():
        yield _together(draft.snapshot, reason, some)
    others = sum(len(alike) for _, alike in states) - sum(len(alike) for _, alike in asked)
    if others:
        yield Cause(others, "kubelet", "their kubelets refuse a pod as well; too many states to tell of each")


def _together(snapshot: NodeSnapshot, reason: str, some: list[tuple[str, list[int]]]) -> Cause:
    many = sum(len(rows) for _, rows in some)
    told, rows = some[0]
    if len({each for each, _ in some}) == 1:
        return Cause(many, reason, told)
    name = snapshot.nodes.name(rows[0])
    return Cause(many, reason, f"{told} ({name}; much the same on the others)", name)
