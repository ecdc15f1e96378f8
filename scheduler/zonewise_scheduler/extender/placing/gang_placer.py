"""Assumes the pods of a gang on nodes: all at once, or none.

The pods are placed on one snapshot. The ledger then admits them one by one. It knows more than the snapshot: the orders
in which assumed pods may arrive, nodes in backoff, stale reports, and pods that were placed meanwhile. If it rejects
pods, all pods of the gang are forgotten. The gang is then placed again on the current nodes, with fewer such pods on
each node that rejected one.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.extender.placing.placer import PodPlacement
from zonewise_scheduler.extender.state.gang_members import MemberState
from zonewise_scheduler.extender.tables import diagnosis
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED
from zonewise_scheduler.nodes.gang.member_placement import UnplacedMember, place_members
from zonewise_scheduler.nodes.gang.types import GangDiagnosis

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from threading import Lock

    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.extender.objects.pod_group import PodGroup
    from zonewise_scheduler.extender.placing.placer import Placer
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.extender.tables.gang_table import GangTable
    from zonewise_scheduler.nodes.gang.member_placement import PlacedMember
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey

MAX_TRIES = 16
"""Maximum number of placements of one gang that the ledger rejects before the gang waits for the next change."""
MAX_UNLOCKED_TRIES = 3
"""Maximum number of tries during which other pods are placed concurrently and may take the gang's nodes; later tries
exclude them."""
_MAX_CAUSES = 3
"""Maximum number of causes in a message: kube-scheduler's events hold 1,024 characters."""


class GangUnit(NamedTuple):
    """The waiting members of a gang that are placed together."""

    group: PodGroup
    pods: tuple[WaitingPod, ...]
    """Members in order of precedence."""
    required: int
    """Number of these members that must have nodes."""
    nodes: tuple[str, ...] = ()
    """Nodes of the members that have one."""

    @property
    def rank(self) -> tuple[bool, int, float, GroupKey]:
        """Return the sort key: gangs with nodes for some members first, then by priority, then the older PodGroup."""
        priority = self.group.priority
        if priority is None:
            priority = max((waiting.spec.priority for waiting in self.pods), default=0)
        return (not self.nodes, -priority, self.group.created, self.group.key)


class GangRejection(NamedTuple):
    """Why a gang has no placement."""

    message: str
    lasting: bool
    """True if the rejection holds until a node changes; otherwise the passing of time may end it."""


Delegated = dict[str, frozenset[str]]
"""The delegated resources, with the nodes that may provide them (WaitingPods.delegated)."""
Limits = dict["PodShape", dict[str, int]]
"""The maximum number of pods by shape and node."""


class GangPlacer:
    """See the module. The caller holds the lock for gangs and the judging lock.

    The judging lock is free while nodes are chosen, so that calls for other pods do not wait for a gang of a thousand.
    It is held while the members are assumed. Otherwise a single pod would go to the zones that the gang leaves on its
    nodes.
    """

    def __init__(self, state: ClusterState, placer: Placer, judging: Lock) -> None:
        self._state = state
        self._placer = placer
        self._judging = judging

    def place(
        self, unit: GangUnit, excluded: Mapping[str, frozenset[str]], now: float, *, causes: bool
    ) -> list[PodPlacement] | GangRejection:
        """Assume all pods of a gang, or at least the required number, or none.

        minResources count before the first pod is placed, as in the Coscheduling plugin (pkg/coscheduling/core/core.go
        PreFilter, CheckClusterResource). `excluded`: nodes by UID of a pod. `causes`: include the causes of the nodes
        in the message of a rejection.
        """
        table = self._placer.gang_table
        table.apply()
        with self._state.lock:
            delegated = self._state.waiting.delegated()
        min_resources = _without(unit.group.min_resources, delegated)
        if not unit.nodes and (resource := table.insufficient_resource(min_resources)):
            why = f"all nodes together have less {resource} left than its minResources"
            return GangRejection(f"{unit.group.key} does not fit: {why}", lasting=True)
        if (level := unit.group.level) and (node := table.unlabelled_node(level, unit.nodes)):
            why = f"all must be in one {level}, and {node}, which has a pod of it, has no such label"
            return GangRejection(f"{unit.group.key} does not fit: {why}", lasting=True)
        limits = self._known_limits(unit)
        lasting = not any(limits.values())
        for number in range(MAX_TRIES):
            with _released(self._judging) if number < MAX_UNLOCKED_TRIES else nullcontext():
                outcome = self._place_members(table, unit, delegated, excluded, limits, causes=causes)
            if isinstance(outcome, GangDiagnosis):
                return GangRejection(_message(unit, outcome, lasting=lasting), lasting)
            if not self._are_waiting(outcome):
                return GangRejection(f"{unit.group.key} does not fit: its pods have changed meanwhile", lasting=False)
            placements = self._assume_all(unit, outcome, limits, now)
            if placements is not None:
                return placements
            lasting = False
            self._placer.refresh()
            table.apply()
        return GangRejection(f"{unit.group.key} does not fit: {diagnosis.LEDGER_REASONS[BLOCKED_BY_ASSUMED]}", False)

    def _place_members(
        self,
        table: GangTable,
        unit: GangUnit,
        delegated: Delegated,
        excluded: Mapping[str, frozenset[str]],
        limits: Limits,
        *,
        causes: bool,
    ) -> tuple[PlacedMember, ...] | GangDiagnosis:
        level = unit.group.level
        rows = {
            shape: {row: limit for name, limit in nodes.items() if (row := table.row(name)) is not None}
            for shape, nodes in limits.items()
        }
        members = self._members(table, unit, delegated, excluded)
        return place_members(table.snapshot(level), members, unit.required, level=level, limits=rows, causes=causes)

    def _known_limits(self, unit: GangUnit) -> Limits:
        """Return limits of 0 pods for the nodes that are known to reject a shape."""
        shapes = {waiting.pod.shape for waiting in unit.pods}
        return {shape: dict.fromkeys(self._placer.rejecting_nodes(shape), 0) for shape in shapes}

    def _members(
        self, table: GangTable, unit: GangUnit, delegated: Delegated, excluded: Mapping[str, frozenset[str]]
    ) -> list[UnplacedMember]:
        outside = table.rows_outside(unit.group.level, unit.nodes) if unit.group.level else frozenset[int]()
        lacking = {resource: table.rows_lacking(resource, nodes) for resource, nodes in delegated.items()}
        members: list[UnplacedMember] = []
        for waiting in unit.pods:
            pod = waiting.pod
            rows = {table.row(name) for name in excluded.get(pod.uid, ())}
            constraints = waiting.spec.constraints
            requested = (name for name, _ in constraints.requests.scalar_resources if name in lacking)
            excluded_rows = outside.union(
                {row for row in rows if row is not None}, *map(lacking.__getitem__, requested)
            )
            constraints = constraints._replace(requests=_without(constraints.requests, delegated))
            members.append(UnplacedMember(pod.uid, pod.name, pod.shape, constraints, excluded_rows))
        return members

    def _are_waiting(self, placed: Sequence[PlacedMember]) -> bool:
        """Return whether all members still wait: if one was deleted meanwhile, the others may be too few."""
        with self._state.lock:
            return all(self._state.gangs.state(uid) is MemberState.WAITING for uid, _, _ in placed)

    def _assume_all(
        self, unit: GangUnit, placed: Sequence[PlacedMember], limits: Limits, now: float
    ) -> list[PodPlacement] | None:
        """Assume all members; or assume none, and set a limit for each node that rejects one."""
        pods = {waiting.pod.uid: waiting for waiting in unit.pods}
        placements: list[PodPlacement] = []
        rejecting: set[str] = set()
        for uid, node, _ in placed:
            if node in rejecting:
                continue
            verdict = self._assume(pods[uid], node, now)
            if verdict is not None:
                placements.append(PodPlacement(pods[uid].pod, node, verdict))
                continue
            rejecting.add(node)
            _limit(limits, pods[uid].pod.shape, node, placements)
        if not rejecting:
            return placements
        for placement in placements:
            self._state.forget(placement.pod.uid)
        return None

    def _assume(self, waiting: WaitingPod, node: str, now: float) -> Verdict | None:
        """Assume a member; return None if its node rejects it."""
        if self._placer.is_stale(node, now):
            return None
        verdict = self._state.assume(waiting.pod, node, waiting.spec.constraints)
        return verdict if verdict.admitted else None


def _without(amounts: Resource, delegated: Delegated) -> Resource:
    """Return amounts without those of delegated resources: nodes may provide these although they lack them."""
    counted = tuple(entry for entry in amounts.scalar_resources if entry[0] not in delegated)
    return amounts._replace(scalar_resources=counted)


@contextmanager
def _released(lock: Lock) -> Generator[None]:
    """Release a lock that the caller holds, and reacquire it at the end."""
    lock.release()
    try:
        yield
    finally:
        lock.acquire()


def _limit(limits: Limits, shape: PodShape, node: str, placements: Sequence[PodPlacement]) -> None:
    """Limit the pods of a shape on a node to those before the rejected one; each call lowers the limit."""
    before = sum((placement.pod.shape, placement.node) == (shape, node) for placement in placements)
    nodes = limits.setdefault(shape, {})
    nodes[node] = min(before, max(nodes.get(node, before + 1) - 1, 0))


def _message(unit: GangUnit, why: GangDiagnosis, *, lasting: bool) -> str:
    """Return a diagnosis as one sentence for an event."""
    parts = [f"{why.fitting_pods} of {why.size} pods like {why.pod_set} fit at once"]
    if why.level:
        parts.append(f"all must be in one {why.level}, and {why.domain or 'none'} fits most, {why.domain_pods}")
    parts += [f"{cause.nodes:,} node(s): {cause.message}" for cause in why.causes[:_MAX_CAUSES]]
    if not lasting:
        parts.append(diagnosis.LEDGER_REASONS[BLOCKED_BY_ASSUMED])
    return f"{unit.group.key} does not fit: {'; '.join(parts)}"
