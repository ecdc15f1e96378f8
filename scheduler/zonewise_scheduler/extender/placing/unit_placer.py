"""One scheduling pass: assumes the waiting units that fit, in order of their rank.

If only few nodes may admit the pods, a joint plan selects the nodes; otherwise the scores do. A pod whose zone a plan
cannot determine is also placed by score, after the planned pods that precede it. Gangs come before pods of a lower
priority, and before younger pods of the same priority.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import TYPE_CHECKING

from zonewise_scheduler.extender.placing.joint_plan import MAX_NODES, JointPlan, JointPlanner, Slot, kind_of
from zonewise_scheduler.extender.placing.node_claims import NodeClaims
from zonewise_scheduler.extender.placing.placer import NodesWithout, PodPlacement
from zonewise_scheduler.extender.state.cluster_state import NODE_FILTER
from zonewise_scheduler.extender.state.waiting_pods import PodUnit
from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.placing.gang_scheduler import GangScheduler
    from zonewise_scheduler.extender.placing.joint_plan import PodKind
    from zonewise_scheduler.extender.placing.placer import Placer
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.extender.tables.node_table import NodeSet

MAX_PLACED = 32
"""Maximum number of pods that one pass places: a bound on the time for which calls of kube-scheduler wait. The next
pass places more."""


class UnitPlacer:
    """See the module. The caller holds the judging lock and, for a pass, that for gangs. The placer is up to date."""

    def __init__(self, state: ClusterState, placer: Placer, gangs: GangScheduler) -> None:
        self._state = state
        self._placer = placer
        self._gangs = gangs
        self._planner = JointPlanner(state, placer)
        self.claims = NodeClaims(state, placer)

    # --- passes

    def place_all(self, now: float) -> list[PodPlacement]:
        """Assume units, each after the gangs that precede it, until nothing more fits or MAX_PLACED is reached."""
        units, fresh = self._waiting(now)
        self.claims.update(now)
        current = _Pass(self._state, self._placer, self.claims, now)
        self._gangs.begin_pass()
        gangs, later = self._gangs.ranks, units
        for _, group in groupby(units, lambda unit: (_priority(unit), bisect_right(gangs, unit.rank[:2]))):
            if current.is_full:
                break
            together = list(group)
            later = later[len(together) :]
            self._gangs.place_before(together[0].rank[:2], now)
            together = self._without_nodes(together)  # calls may have placed some of them meanwhile
            self._place_together(current, together, later, fresh)
        if not current.is_full:
            self._gangs.place_before(None, now)
        return self._placer.take_placements()

    def place_preceding(self, pod: WaitingPod, now: float) -> None:
        """Assume the units that precede a pod and fit, without gangs: a pass that is due would place them.

        kube-scheduler may filter the pod within milliseconds after a node has changed, before the pass.
        """
        rank = PodUnit((pod,)).rank
        units, fresh = self._waiting(now)
        self.claims.update(now)
        current = _Pass(self._state, self._placer, self.claims, now)
        later = units
        for _, group in groupby([unit for unit in units if unit.rank < rank], _priority):
            together = list(group)
            later = later[len(together) :]
            self._place_together(current, together, later, fresh)

    def _place_together(
        self, current: _Pass, units: Sequence[PodUnit], later: Sequence[PodUnit], fresh: Sequence[WaitingPod]
    ) -> None:
        """Assume the units of one priority between two gangs; a plan that includes later units is valid for them."""
        planned = [unit for unit in (*units, *later) if self._is_packable(unit)]
        packable = {_uid(unit) for unit in planned}
        if current.plan is None or not self._planner.is_valid(current.plan):
            current.plan = self._plan(planned, fresh, current.now) if planned else None
        plan = current.plan
        if plan is None:
            current.by_score(units, frozenset())
            return
        pending: set[PodKind] = set()  # of preceding units whose slots are held
        for unit in units:
            if current.is_full:
                break
            if _uid(unit) not in packable:
                current.by_score([unit], plan.reserved_nodes(pending))
                continue
            nodes = NodesWithout(self._placer.table, self.claims.before(unit.rank))
            placement = self.place_by_plan(unit.pods[0], plan, nodes, current.now)
            if placement is not None:
                current.add(unit, [placement])
            else:
                pending.add(kind_of(unit.pods[0]))
        current.by_score([unit for unit in units if _uid(unit) in packable], plan.reserved_nodes())

    def _waiting(self, now: float) -> tuple[list[PodUnit], list[WaitingPod]]:
        """Return the units without assumed or bound pods, and the pods that will soon be filtered.

        Units and pods that no node may admit are left out.
        """
        with self._state.lock:
            waiting = self._state.waiting
            fresh = [pod for pod in waiting.fresh(now) if self._is_single(pod)]
            every = waiting.units()
        units = self._without_nodes(every)
        shapes = {pod.pod.shape for unit in units for pod in unit.pods} | {pod.pod.shape for pod in fresh}
        possible = {shape for shape in shapes if self._placer.table.possible_nodes(shape, 1)}
        fitting = [unit for unit in units if all(pod.pod.shape in possible for pod in unit.pods)]
        return fitting, [pod for pod in fresh if pod.pod.shape in possible]

    def _without_nodes(self, units: Sequence[PodUnit]) -> list[PodUnit]:
        """Return the units without assumed or bound pods."""
        with self._state.lock:
            return [unit for unit in units if all(self._is_single(pod) for pod in unit.pods)]

    def _is_single(self, waiting: WaitingPod) -> bool:
        """Return whether a pod has no node yet, and needs one independently of other pods."""
        group = waiting.spec.group
        is_single = group is None or self._state.gangs.is_single(group)
        return is_single and self._state.ledger.node_of(waiting.pod.uid) is None

    # --- one pod

    def waiting_plan(self, now: float) -> JointPlan | None:
        """Return the plan for all waiting pods, or None if scores decide."""
        units, fresh = self._waiting(now)
        return self._plan([unit for unit in units if self._is_packable(unit)], fresh, now)

    def may_have_plan(self, shape: PodShape, now: float) -> bool:
        """Return whether a plan may place a pod, even one that has not been observed yet and so is in no plan."""
        nodes = self._placer.table.possible_nodes(shape, MAX_NODES + 1)
        return 0 < len(nodes) <= MAX_NODES and self.waiting_plan(now) is not None

    def reserved_nodes(self, waiting: WaitingPod, plan: JointPlan) -> frozenset[str]:
        """Return the nodes that a plan withholds from a pod that has no slot in it."""
        if not self._planner.is_packable(waiting) and waiting.spec.priority >= plan.priority:
            return frozenset()
        return plan.reserved_nodes()

    def _is_packable(self, unit: PodUnit) -> bool:
        return len(unit.pods) == 1 and self._planner.is_packable(unit.pods[0])

    def _plan(self, units: Sequence[PodUnit], fresh: Sequence[WaitingPod], now: float) -> JointPlan | None:
        """Return the plan for units of one pod, and for pods that will soon be filtered."""
        pods = [unit.pods[0] for unit in units]
        return self._planner.plan([*pods, *(pod for pod in fresh if self._planner.is_packable(pod))], now)

    def place_by_plan(self, waiting: WaitingPod, plan: JointPlan, nodes: NodeSet, now: float) -> PodPlacement | None:
        """Assume a pod in one of its slots on one of `nodes`; return None if no slot is open."""
        for slot in _distinct(plan.slots.get(kind_of(waiting), ())):
            if slot.node not in nodes or self._planner.is_held(plan, waiting, slot, now):
                continue
            if not self._is_open(waiting, slot.node, now):
                self._planner.skip(plan, waiting, slot, NODE_FILTER)
                continue
            verdict = self._placer.assume(waiting.pod, waiting.spec.constraints, slot.node)
            if not isinstance(verdict, str):
                self._planner.use(plan, waiting, slot)
                return PodPlacement(waiting.pod, slot.node, verdict)
            self._planner.skip(plan, waiting, slot, verdict)
        return None

    def _is_open(self, waiting: WaitingPod, node: str, now: float) -> bool:
        """Return whether a node still passes the filters for a pod, and its report is not stale."""
        return self._placer.filters.passes(waiting.spec.constraints, node) and not self._placer.is_stale(node, now)


class _Pass:
    """A pass in progress."""

    def __init__(self, state: ClusterState, placer: Placer, claims: NodeClaims, now: float) -> None:
        self.placed = 0
        self.done: set[str] = set()
        """The placed units, by the UID of their first pod."""
        self.plan: JointPlan | None = None
        """The plan for the pods of a priority and of all lower ones."""
        self.now = now
        self._state = state
        self._placer = placer
        self._claims = claims
        self._budget = JudgingBudget()
        self._rejected: set[tuple[PodKind, frozenset[str]]] = set()
        # shapes that no node has admitted in this pass: nothing becomes free while it runs

    @property
    def is_full(self) -> bool:
        """Return whether the pass has placed the maximum number of pods."""
        return self.placed >= MAX_PLACED

    def add(self, unit: PodUnit, placements: list[PodPlacement]) -> None:
        """Request the binding of a unit's pods: calls of kube-scheduler must not move them while gangs are placed."""
        for placement in placements:
            self._placer.request_binding(placement)
        self.placed += len(placements)
        self.done.add(_uid(unit))

    def by_score(self, units: Sequence[PodUnit], reserved: frozenset[str]) -> None:
        """Assume units on the nodes with the best scores, except reserved and claimed ones."""
        for unit in units:
            if self.is_full:
                return
            if _uid(unit) in self.done:
                continue
            withheld = reserved | self._claims.before(unit.rank) if self._claims else reserved
            if placements := self._place(unit, withheld):
                self.add(unit, placements)

    def _place(self, unit: PodUnit, reserved: frozenset[str]) -> list[PodPlacement]:
        """Assume all pods of a unit, or none of them."""
        placements: list[PodPlacement] = []
        if any((kind_of(waiting), reserved) in self._rejected for waiting in unit.pods):
            return placements
        for waiting in unit.pods:
            placement, is_certain = self._place_pod(waiting, reserved)
            if placement is None:
                if is_certain and not placements:
                    self._rejected.add((kind_of(waiting), reserved))
                for earlier in placements:
                    self._state.forget(earlier.pod.uid)
                self._placer.refresh()
                return []
            placements.append(placement)
            self._placer.refresh()  # a rejection is stored for the current state
        return placements

    def _place_pod(self, waiting: WaitingPod, reserved: frozenset[str]) -> tuple[PodPlacement | None, bool]:
        """Return where a pod is assumed, and whether a rejection applies to equal pods of any priority."""
        pod, constraints = waiting.pod, waiting.spec.constraints
        if not self._placer.table.change_revisions(pod.shape):
            return None, True
        nodes = self._placer.filters.passing(constraints)
        if not nodes:
            return None, True
        selection = self._placer.select(pod, constraints, NodesWithout(nodes, reserved), self.now, self._budget)
        if selection.verdict is None:
            return None, not selection.is_nominated
        return PodPlacement(pod, selection.node, selection.verdict), True


def _uid(unit: PodUnit) -> str:
    return unit.pods[0].pod.uid


def _priority(unit: PodUnit) -> int:
    return unit.pods[0].spec.priority


def _distinct(slots: Sequence[Slot]) -> list[Slot]:
    return list(dict.fromkeys(slots))
