"""Selects the victims for a preemptor: on any node that kube-scheduler's filters pass, or on those that it proposes.

For a gang, pods on several nodes end, or none: see select_gang_victims.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import object_in
from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.extender.state.gang_members import MemberState
from zonewise_scheduler.nodes.filters.filter_plugins import taint_toleration
from zonewise_scheduler.nodes.node.node_info import available
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES
from zonewise_scheduler.nodes.preemption.cost import by_importance, victims_cost
from zonewise_scheduler.nodes.preemption.gang_victims import select_gang_victims
from zonewise_scheduler.nodes.preemption.plan import PreemptionPlan, plan_preemption
from zonewise_scheduler.nodes.preemption.types import Preemptor, Victims
from zonewise_scheduler.nodes.preemption.victims import select_victims

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
    from zonewise_scheduler.extender.objects.disruption_budgets import DisruptionBudgets
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.extender.types import ProposedVictims
    from zonewise_scheduler.nodes.assumed.types import PendingPod
    from zonewise_scheduler.nodes.filters.constraints import Constraints
    from zonewise_scheduler.nodes.preemption.cost import Cost
    from zonewise_scheduler.nodes.preemption.types import OccupiedNode, RunningPod
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey


def read_preemptor(pod: PendingPod, obj: Mapping[str, Any]) -> Preemptor | None:
    """Return a v1.Pod as a preemptor, or None if its preemptionPolicy is Never. Raises FieldError."""
    spec = object_in(obj, "spec", "")
    if spec.get("preemptionPolicy") == "Never":
        return None
    priority = spec.get("priority")
    return Preemptor(*pod, priority if isinstance(priority, int) else 0)


MAX_GANG = 64
"""Maximum number of members of a gang that preempts: the search takes seconds of CPU time, which grow with their
square."""


class _PreemptingGang(NamedTuple):
    """The members of a gang that must be placed together."""

    members: tuple[Preemptor, ...]
    constraints: Constraints
    """Constraints of each member, without its requests."""
    level: str
    """Level of the domain that must hold all members; "": none."""
    min_resources: Resource
    """Amounts that all nodes together must have left; none if the gang has nodes already."""


class GangPreemption(NamedTuple):
    """A decided preemption for a gang."""

    claims: tuple[tuple[Preemptor, str], ...]
    """Members that must be placed together, each with its node."""
    victims: tuple[Victims, ...]
    """Victims by node; not empty."""


class PreemptionPlanner:
    """See the module. Takes the state's lock for one node at a time."""

    def __init__(self, state: ClusterState, budgets: DisruptionBudgets, fallback: FallbackPolicy) -> None:
        self._state = state
        self._budgets = budgets
        self._fallback = fallback

    def plan(self, preemptor: Preemptor, names: Iterable[str]) -> PreemptionPlan:
        """Return the cheapest victims on the named nodes."""
        names = self._open_nodes(names, [preemptor])
        with self._state.lock:
            lowest = [(self._state.running.lowest_priority(name), name) for name in names]
        ordered = sorted((low, name) for low, name in lowest if low is not None and low < preemptor.priority)
        nodes = self._occupied_nodes(preemptor, (name for _, name in ordered))
        return plan_preemption(nodes, preemptor, self._budgets.allowed())

    def plan_gang(self, key: GroupKey, names: Sequence[str]) -> GangPreemption | None:
        """Return the preemption on the named nodes for the members that must be placed together.

        Return None if no preemption helps, none is needed, or members are missing. Return None also if the constraints
        of members differ or depend on which other pods exist.
        """
        gang = self._gang(key)
        if gang is None:
            return None
        members = gang.members
        names = self._open_nodes(names, members)
        allowed = self._budgets.allowed()
        lowest = min(members, key=lambda member: member.priority)  # it leaves the most capacity to nominated pods
        outcomes = (
            select_gang_victims(list(self._occupied_nodes(lowest, domain)), members, allowed)
            for domain in self._domains(gang, names)
        )
        best: GangPreemption | None = None
        for outcome in outcomes:
            if outcome is None:
                continue
            if not outcome.victims:
                return None
            preemption = GangPreemption(tuple(zip(members, outcome.nodes, strict=True)), outcome.victims)
            if best is None or _gang_cost(preemption) < _gang_cost(best):
                best = preemption
        return best if best is not None and self._leaves_min_resources(gang, best.victims) else None

    def refine(self, preemptor: Preemptor, proposed: Mapping[str, ProposedVictims]) -> list[Victims]:
        """Return the exact victims on each node that kube-scheduler proposes; other nodes are left out.

        The constraints of the pod may depend on which other pods exist, or only kube-scheduler may know them. In these
        cases all of kube-scheduler's victims end, and further ones in addition.
        """
        independent = self._is_independent(preemptor.uid)
        allowed = self._budgets.allowed()
        refined: list[Victims] = []
        for node in self._occupied_nodes(preemptor, self._open_nodes(proposed, [preemptor])):
            uids = frozenset(proposed[node.name].uids)
            required = () if independent else tuple(pod for pod in node.pods if pod.uid in uids)
            if len(required) != (0 if independent else len(uids)) or (proposed[node.name].violations and required):
                continue
            victims = select_victims(_ending(node, required), preemptor, allowed)
            if victims is not None:
                pods = by_importance({*victims.pods, *required} or _terminating(node, uids))
                refined += [victims._replace(pods=pods)] if pods else []
        return refined

    def _gang(self, key: GroupKey) -> _PreemptingGang | None:
        """Return the members that must be placed together, or None if they cannot be."""
        with self._state.lock:
            gangs = self._state.gangs
            group, required = gangs.group(key), gangs.required(key)
            ready = self._state.ready_members(key)[:required]
            same = {pod.spec.constraints._replace(requests=NO_RESOURCES) for pod in ready}
            if group is None or len(ready) < max(required, 1) or len(ready) > MAX_GANG or len(same) > 1:
                return None
            has_nodes = bool(gangs.members(key, MemberState.ASSUMED, MemberState.BOUND))
            if group.level and has_nodes:
                return None  # the domain is decided already
            if not all(self._is_exact(pod) for pod in ready):
                return None
        members = tuple(Preemptor(*pod.pod, pod.spec.priority) for pod in ready)
        [constraints] = same
        return _PreemptingGang(members, constraints, group.level, NO_RESOURCES if has_nodes else group.min_resources)

    def _leaves_min_resources(self, gang: _PreemptingGang, victims: Iterable[Victims]) -> bool:
        """Return whether all nodes together have enough left for a gang once victims have ended."""
        if gang.min_resources == NO_RESOURCES:
            return True
        with self._state.lock:
            infos = [self._state.infos.get(name) for name in self._state.infos]
        left = Counter[str]()
        for info in infos:
            if info is not None:
                left.update({name: max(size, 0) for name, size in amounts_by_resource(available(info))})
        for pod in (pod for each in victims for pod in each.pods):
            left.update(dict(amounts_by_resource(pod.requests)))
        return all(left[name] >= size for name, size in amounts_by_resource(gang.min_resources))

    def _domains(self, gang: _PreemptingGang, names: Sequence[str]) -> list[list[str]]:
        """Return the nodes of each domain of a gang's level, or all nodes for "", those without other pods first.

        Leave out nodes that only gangs avoid: kube-scheduler passes them.
        """
        level = gang.level
        domains: dict[str, list[tuple[float, str]]] = {}
        with self._state.lock:
            for name in names:
                info = self._state.infos.get(name)
                if info is not None and taint_toleration(gang.constraints, info) is not None:
                    continue
                value = info.label(level) if level and info is not None else ""
                if value is not None:
                    lowest = self._state.running.lowest_priority(name)
                    domains.setdefault(value, []).append((float("-inf") if lowest is None else lowest, name))
        return [[name for _, name in sorted(domain)] for domain in domains.values()]

    def _open_nodes(self, names: Iterable[str], preemptors: Iterable[Preemptor]) -> list[str]:
        """Return the nodes that may admit the preemptors once victims have ended."""
        closed = self._state.closed_nodes((each.shape for each in preemptors), self._fallback)
        return [name for name in names if name not in closed]

    def _occupied_nodes(self, preemptor: Preemptor, names: Iterable[str]) -> Iterator[OccupiedNode]:
        for name in names:
            with self._state.lock:
                node = self._state.nominated.occupied.get(name, preemptor.uid, preemptor.priority, self._budgets.of_pod)
            if node is not None:
                yield node

    def _is_independent(self, uid: str) -> bool:
        """Return whether any set of pods may end for a pod, because only their requests and zones matter to it."""
        with self._state.lock:
            waiting = self._state.waiting.get(uid)
            return waiting is not None and self._is_exact(waiting)

    def _is_exact(self, waiting: WaitingPod) -> bool:
        return self._state.waiting.is_exact(waiting) and not waiting.spec.constraints.ports


def _gang_cost(preemption: GangPreemption) -> Cost:
    return victims_cost([pod for victims in preemption.victims for pod in victims.pods])


def _ending(node: OccupiedNode, required: tuple[RunningPod, ...]) -> OccupiedNode:
    uids = {pod.uid for pod in required}
    pods = tuple(pod._replace(terminating=True) if pod.uid in uids else pod for pod in node.pods)
    return node._replace(pods=pods)


def _terminating(node: OccupiedNode, uids: frozenset[str]) -> set[RunningPod]:
    """Return proposed victims that are terminating: kube-scheduler needs at least one victim, and evicts none twice."""
    return {pod for pod in node.pods if pod.uid in uids and pod.terminating}
