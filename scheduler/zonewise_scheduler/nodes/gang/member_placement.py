"""Placement of a gang of plain pods without a template: all of them, or at least the required number."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.gang.placement import place_gang
from zonewise_scheduler.nodes.gang.types import GangDiagnosis, GangPodSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.nodes.gang.types import GangPlacement, NodeSnapshot

_NO_LIMITS: Mapping[PodShape, Mapping[int, int]] = MappingProxyType({})


class UnplacedMember(NamedTuple):
    """A pod of a gang that needs a node."""

    uid: str
    name: str
    shape: PodShape
    constraints: Constraints = Constraints()
    excluded: frozenset[int] = frozenset()
    """Rows of nodes that are ruled out for this pod by something outside the snapshot."""


class PlacedMember(NamedTuple):
    """A pod of a gang and its node."""

    uid: str
    node: str
    verdict: Verdict
    """The kubelet's predicted verdict on the pod, after the members before it."""


def place_members(
    snapshot: NodeSnapshot,
    members: Sequence[UnplacedMember],
    required: int,
    *,
    level: str = "",
    limits: Mapping[PodShape, Mapping[int, int]] = _NO_LIMITS,
    causes: bool = True,
) -> tuple[PlacedMember, ...] | GangDiagnosis:
    """Place as many members as fit together, in the order in which they must reach kubelets, or return a diagnosis.

    `members` are in order of precedence. If not all fit, the last ones of a shape are left out first, as long as
    `required` members remain. If all members are alike, the result is exact: it is a diagnosis only if fewer than
    `required` fit. `level`: the label key that defines the domains, one of which must hold all members. `limits`: by
    shape and row, the maximum number of such members on a node. `causes`: as in place_gang. Equal input gives equal
    output. Raises ValueError, as place_gang does.
    """
    selected = list(members)
    diagnosis: GangDiagnosis | None = None
    while True:
        members_by_set = _members_by_set(selected)
        pod_sets = [_pod_set(group, level, limits) for group in members_by_set.values()]
        outcome = place_gang(snapshot, pod_sets, causes=causes and diagnosis is None)
        if not isinstance(outcome, GangDiagnosis):
            return tuple(_placed_members(outcome, members_by_set))
        diagnosis = diagnosis or outcome
        surplus = len(selected) - required
        excess = _excess(outcome)
        if surplus <= 0 or (len(members_by_set) == 1 and excess > surplus):
            return diagnosis
        left_out = {member.uid for member in members_by_set[outcome.pod_set][-min(excess, surplus) :]}
        selected = [member for member in selected if member.uid not in left_out]


def _excess(diagnosis: GangDiagnosis) -> int:
    """Return how many pods of the diagnosed set do not fit, at least 1."""
    fitting = min(diagnosis.fitting_pods, diagnosis.domain_pods) if diagnosis.level else diagnosis.fitting_pods
    return max(diagnosis.size - fitting, 1)


def _members_by_set(members: Sequence[UnplacedMember]) -> dict[str, list[UnplacedMember]]:
    """Return groups of members that are alike, by the name of the first member."""
    groups: dict[object, list[UnplacedMember]] = {}
    for member in members:
        groups.setdefault((member.shape, member.constraints, member.excluded), []).append(member)
    return {group[0].name: group for group in groups.values()}


def _pod_set(members: Sequence[UnplacedMember], level: str, limits: Mapping[PodShape, Mapping[int, int]]) -> GangPodSet:
    first = members[0]
    row_limits = {**limits.get(first.shape, {}), **dict.fromkeys(first.excluded, 0)}
    return GangPodSet(
        first.name, len(members), first.shape, first.constraints, level, group="gang" if level else "",
        limits=row_limits,
    )  # fmt: skip


def _placed_members(
    placement: GangPlacement, members: Mapping[str, Sequence[UnplacedMember]]
) -> Iterator[PlacedMember]:
    by_name = {pod_set.name: pod_set for pod_set in placement.sets}
    for name in placement.order:
        pod_set = by_name[name]
        for member, node, verdict in zip(members[name], pod_set.nodes, pod_set.verdicts, strict=True):
            yield PlacedMember(member.uid, node, verdict)
