"""Explains why a gang has no placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_common.k8s.taints import find_matching_untolerated_taint
from zonewise_scheduler.admission.explain.phrases import milli_amount, milli_count
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import PODS
from zonewise_scheduler.nodes.filters.filter_plugins import run_filter_plugins
from zonewise_scheduler.nodes.filters.info_table import OUTCOMES, UNKNOWN
from zonewise_scheduler.nodes.gang.types import Cause, GangDiagnosis
from zonewise_scheduler.nodes.node.avoided_conditions import KEY, describe_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from zonewise_common.k8s.taints import Taint
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.gang.draft_placement import DraftPlacement, PodSetDemand
    from zonewise_scheduler.nodes.gang.sequential_verdicts import SequentialVerdicts
    from zonewise_scheduler.nodes.gang.types import NodeSnapshot

_USED_BY_GANG = "other pods of the gang use what they have available"

_MAX_STATES = 64
"""Maximum number of distinct states of rejecting nodes for which verdicts are computed."""


def explain(
    draft: DraftPlacement, group: list[PodSetDemand], verdicts: SequentialVerdicts, *, causes: bool = True
) -> GangDiagnosis:
    """Return why sets that share a domain do not fit in addition to the pods of a draft, for the set that fits worst.

    `causes`: include the causes of the nodes.
    """
    pod_counts = [draft.pod_counts(demand) for demand in group]
    fits = [int(counts.sum()) for counts in pod_counts]
    level = group[0].pods.required
    if not level or any(fit < demand.pods.size for fit, demand in zip(fits, group, strict=True)):
        worst = min(range(len(group)), key=lambda index: fits[index] / group[index].pods.size)
        return _diagnose(draft, group[worst], verdicts, fits[worst], causes=causes)
    level_index = draft.snapshot.levels.keys.index(level)
    domain_counts = [draft.domain_pod_counts(demand, level_index) for demand in group]
    best = [int(counts.max(initial=0)) for counts in domain_counts]
    worst = min(range(len(group)), key=lambda index: best[index] / group[index].pods.size)
    domain = _domain_name(draft.snapshot, level_index, int(domain_counts[worst].argmax())) if best[worst] else ""
    diagnosis = _diagnose(draft, group[worst], verdicts, fits[worst], causes=causes)
    return diagnosis._replace(level=level, domain=domain, domain_pods=best[worst])


def _diagnose(
    draft: DraftPlacement, demand: PodSetDemand, verdicts: SequentialVerdicts, fits: int, *, causes: bool
) -> GangDiagnosis:
    fitting = min(fits, demand.pods.size)
    if not causes:
        return GangDiagnosis(demand.pods.name, demand.pods.size, fitting)
    pod_counts = np.zeros(len(demand.filter_codes), np.int64)
    pod_counts[draft.snapshot.levels.order] = draft.pod_counts(demand)
    rows = np.flatnonzero(pod_counts == 0)
    node_causes = [*_filter_causes(draft.snapshot, demand, rows), *_kubelet_causes(draft, demand, rows, verdicts)]
    node_causes.sort(key=lambda cause: (-cause.nodes, cause.reason, cause.message))
    return GangDiagnosis(demand.pods.name, demand.pods.size, fitting, tuple(node_causes))


def _domain_name(snapshot: NodeSnapshot, level: int, domain: int) -> str:
    """Return the label value of a domain."""
    row = int(snapshot.levels.order[snapshot.levels.bounds[level][domain]])
    info = snapshot.nodes.infos[row]
    return (info.label(snapshot.levels.keys[level]) if info is not None else None) or ""


# --- nodes that a filter rejects


def _filter_causes(snapshot: NodeSnapshot, demand: PodSetDemand, rows: NDArray[np.int64]) -> Iterator[Cause]:
    for code, outcome in enumerate(OUTCOMES):
        rejecting = rows[demand.filter_codes[rows] == code]
        if not code or not rejecting.size:
            continue
        if outcome == UNKNOWN:
            reported = sum(snapshot.table.state(row) is not None for row in rejecting.tolist())
            if reported:  # a row with neither a report nor a node is unused
                yield Cause(reported, "", "only their zones are known")
        elif outcome == "TaintToleration":
            yield from _taint_causes(snapshot, demand, rejecting)
        elif outcome == "NodeResourcesFit":
            yield from _insufficient(snapshot, demand, rejecting)
        else:
            info = snapshot.nodes.infos[int(rejecting[0])]
            rejection = None if info is None else run_filter_plugins(demand.pods.constraints, info)
            yield Cause(rejecting.size, outcome, rejection.reason if rejection is not None else outcome)


def _taint_causes(snapshot: NodeSnapshot, demand: PodSetDemand, rows: NDArray[np.int64]) -> Iterator[Cause]:
    counts: dict[str, int] = {}
    conditions: dict[Taint, list[str]] = {}
    tolerations = demand.pods.constraints.tolerations
    for taints, node_count in snapshot.nodes.taints(rows):
        taint = find_matching_untolerated_taint(taints, tolerations)
        if taint is not None and taint.key == KEY:
            conditions.setdefault(taint, []).extend(snapshot.nodes.names(rows, taints))
        else:
            counts[str(taint)] = counts.get(str(taint), 0) + node_count
    for name, node_count in counts.items():
        yield Cause(node_count, "TaintToleration", f"the taint {name} is not tolerated")
    for taint, nodes in conditions.items():
        yield Cause(len(nodes), "AvoidedCondition", describe_condition(taint, sorted(nodes)))


def _insufficient(snapshot: NodeSnapshot, demand: PodSetDemand, rows: NDArray[np.int64]) -> Iterator[Cause]:
    """Yield the insufficient resources; each node counts for the first one."""
    for name, size in amounts_by_resource(demand.pods.constraints.requests):
        available = snapshot.nodes.available(name)[rows]
        lacking = available < size
        if size and lacking.any():
            best = max(int(available[lacking].max()), 0)
            request, remaining = milli_amount(name, size), milli_count(name, best)
            message = f"needs {request} of the whole node; no more than {remaining} left"
            yield Cause(int(lacking.sum()), "NodeResourcesFit", message if name != PODS else "too many pods")
            rows = rows[~lacking]


# --- nodes whose kubelets reject


def _kubelet_causes(
    draft: DraftPlacement, demand: PodSetDemand, rows: NDArray[np.int64], verdicts: SequentialVerdicts
) -> Iterator[Cause]:
    """Yield the kubelets' reasons, grouped if equal, and the number of nodes without a computed verdict."""
    by_state: dict[NodeState | None, list[int]] = {}
    for row in rows[demand.filter_codes[rows] == 0].tolist():
        by_state.setdefault(draft.state(row), []).append(row)
    if None in by_state:
        yield Cause(len(by_state[None]), "", "no report of their zones")
    states = [(state, rows) for state, rows in by_state.items() if state is not None]
    sampled = states[:: -(-len(states) // _MAX_STATES) or 1]
    by_reason: dict[tuple[str, str, str], list[tuple[str, list[int]]]] = {}
    for state, alike in sampled:
        verdict = verdicts.verdict(state, demand.pods.shape)
        message = _USED_BY_GANG if verdict.admitted else explain_rejection(state, demand.pods.shape, verdict)
        by_reason.setdefault((verdict.reason, verdict.container, verdict.resource), []).append((message, alike))
    for (reason, _, _), messages in by_reason.items():
        yield _combined_cause(draft.snapshot, reason, messages)
    unsampled = sum(len(alike) for _, alike in states) - sum(len(alike) for _, alike in sampled)
    if unsampled:
        yield Cause(unsampled, "kubelet", "their kubelets reject a pod as well; too many states to explain each")


def _combined_cause(snapshot: NodeSnapshot, reason: str, messages: list[tuple[str, list[int]]]) -> Cause:
    node_count = sum(len(rows) for _, rows in messages)
    message, rows = messages[0]
    if len({text for text, _ in messages}) == 1:
        return Cause(node_count, reason, message)
    name = snapshot.nodes.name(rows[0])
    return Cause(node_count, reason, f"{message} ({name}; similar on the others)", name)
