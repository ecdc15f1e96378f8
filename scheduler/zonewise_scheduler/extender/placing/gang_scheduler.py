"""Places gangs: decides their order, which of them wait, and which nodes are held until kube-scheduler binds pods.

A gang is placed when kube-scheduler filters one of its members, and again in each scheduling pass while it does not
fit. Gangs are ordered by priority, then by the age of the PodGroup. No gang holds anything while it waits.

| the placed members | who binds them |
|---|---|
| the one that kube-scheduler filters | kube-scheduler; the extender, if that has not happened within FILTERED_TIMEOUT |
| the others, if our own filters decide exactly about all members | the extender |
| the others of any other gang | kube-scheduler: each is requeued, and filter returns the node that is held for it |

Nodes held for a gang that kube-scheduler binds are forgotten after the group's scheduleTimeoutSeconds. kube-scheduler
binds a member with volumes only once these are provisioned. After it passes filter, its node is held for
PREBIND_TIMEOUT.

Single pods are placed while nodes for a gang are chosen. If two pods want one node, the first one assumed gets it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.extender.placing.gang_placer import GangPlacer, GangRejection, GangUnit
from zonewise_scheduler.extender.state.cluster_state import PREBIND_TIMEOUT
from zonewise_scheduler.extender.state.gang_members import MemberState
from zonewise_scheduler.nodes.gang.topology_levels import natural_key

if TYPE_CHECKING:
    from collections.abc import Collection
    from threading import Lock

    from zonewise_scheduler.extender.placing.placer import Placer, PodPlacement
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.extender.types import CandidateNodes
    from zonewise_scheduler.nodes.assumed.types import PendingPod
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey

FILTERED_TIMEOUT = 10.0
"""Seconds within which kube-scheduler binds a pod that passed filter; after that, it has other reasons not to."""
MAX_ATTEMPTS = 8
"""Maximum number of gangs that one call tries to place: a bound on the time for which calls of kube-scheduler wait."""


class _Held(NamedTuple):
    """A node that is held for a pod until kube-scheduler binds it."""

    placement: PodPlacement
    key: GroupKey
    until: float
    exact: bool
    """Whether the extender binds the pod after that time; otherwise the gang is forgotten."""
    passed: bool = False
    """Whether the pod has passed filter, so that kube-scheduler may be binding it."""


class _Rejection(NamedTuple):
    """A gang that does not fit."""

    versions: tuple[int, int, int]
    """Versions of the nodes, of their rejections and of the gang: while these are unchanged, the gang does not fit."""
    message: str
    """Reason; empty if unknown, since no pod was filtered then."""


class GangScheduler:
    """See the module. The caller holds the lock for gangs and, except for hold(), the judging lock."""

    def __init__(self, state: ClusterState, placer: Placer, judging: Lock, *, direct_binding: bool) -> None:
        self._state = state
        self._direct_binding = direct_binding
        self._placer = placer
        self._gang_placer = GangPlacer(state, placer, judging)
        self._held: dict[str, _Held] = {}
        self._excluded: dict[GroupKey, dict[str, frozenset[str]]] = {}
        self._rejections: dict[GroupKey, _Rejection] = {}
        self._requeued: dict[str, PendingPod] = {}
        self._batch: list[GangUnit] = []
        self._skipped = 0
        self._schedulers = 0
        """Number of known schedulers when gangs were last requested for them."""

    # --- calls of kube-scheduler

    def filter(
        self, pod: PendingPod, key: GroupKey, scheduler: str, candidates: CandidateNodes, now: float
    ) -> PodPlacement | str | None:
        """Place the whole gang of a member; return the member's placement, or why it waits.

        Return None if enough other members have been placed: the pod is then placed by itself.
        """
        held = self._held.get(pod.uid)
        if held is not None and (held.exact or held.placement.node in candidates):
            return self._pass(held, candidates, now)
        if held is None and (message := self._cached(key)):
            return message
        if held is not None:
            self._exclude(held)
        with self._state.lock:
            self._state.gangs.request(key, scheduler)
            unit = self._unit(key)
            is_observed = self._state.gangs.state(pod.uid) is not None
            ready = (len(unit.pods) if unit is not None else 0) + (not is_observed)
            rejection = self._state.gangs.rejection(key, ready)
        if rejection is not None:
            return rejection
        waiting = next((each for each in unit.pods if each.pod.uid == pod.uid), None) if unit is not None else None
        if unit is None or waiting is None:
            return f"waits until the extender has observed this pod of {key}"
        self._place_before(unit, now)
        message = self._place(unit, now, filtered=pod.uid)
        if message and self._placer.learn_delegated(waiting, candidates, now):
            message = self._place(unit, now, filtered=pod.uid)
        held = self._held.get(pod.uid)
        return (message or None) if held is None else self._pass(held, candidates, now)

    def holds(self, uid: str) -> bool:
        """Return whether a node is held for a pod until kube-scheduler binds it."""
        return uid in self._held

    def _pass(self, held: _Held, candidates: CandidateNodes, now: float) -> PodPlacement | str:
        """Return the held placement if its node is a candidate of kube-scheduler, or else why the pod waits."""
        pod, node, _ = held.placement
        if node in candidates:
            with self._state.lock:
                until = now + PREBIND_TIMEOUT if self._state.is_bound_late(pod.uid) else held.until
            self._hold(held._replace(passed=True, until=max(until, held.until)))
            return held.placement
        if not held.exact:
            self._exclude(held)
            return f"{held.key} is placed again: kube-scheduler excludes {node} for this pod"
        del self._held[pod.uid]
        self._placer.request_binding(held.placement)
        return f"the pod is being bound to {node}"

    # --- scheduling passes

    def begin_pass(self) -> None:
        """Select some of the gangs that may fit, best first; the next pass selects others."""
        units = self._units()
        skipped = self._skipped if self._skipped < len(units) else 0
        self._batch = units[skipped : skipped + MAX_ATTEMPTS]
        self._skipped = skipped + MAX_ATTEMPTS if skipped + MAX_ATTEMPTS < len(units) else 0

    def place_before(self, rank: tuple[int, float] | None, now: float) -> None:
        """Place the gangs of the pass that precede a pod of this negative priority and age; None: place all of them."""
        while self._batch and (rank is None or self._batch[0].nodes or self._batch[0].rank[1:3] <= rank):
            self._place(self._batch.pop(0), now)

    @property
    def ranks(self) -> list[tuple[int, float]]:
        """Return the negative priority and the age of each gang of the pass, ascending."""
        return sorted(unit.rank[1:3] for unit in self._batch)

    @property
    def has_more(self) -> bool:
        """Return whether further gangs remain for the next pass."""
        return bool(self._skipped)

    def take_requeued(self) -> list[PendingPod]:
        """Return the pods that kube-scheduler must filter again, since nodes are held for them."""
        requeued, self._requeued = self._requeued, {}
        return [pod for uid, pod in requeued.items() if uid in self._held]

    def hold(self, placement: PodPlacement, now: float) -> bool:
        """Hold the node of a member that the extender could not bind; return False if it is not an assumed member."""
        uid = placement.pod.uid
        with self._state.lock:
            key = self._state.gangs.key(uid)
            group = self._state.gangs.group(key) if key is not None else None
            assumed = self._state.gangs.state(uid) is MemberState.ASSUMED
            if key is None or group is None or not assumed:
                return False
            self._state.bindings.requested.pop(uid, None)
        self._hold(_Held(placement, key, now + group.schedule_timeout, exact=False))
        self._requeued[uid] = placement.pod
        return True

    def tick(self, now: float) -> None:
        """Apply the changes that only time causes."""
        with self._state.lock:
            assumed = set(self._state.gangs.assumed())
        self._held = {uid: held for uid, held in self._held.items() if uid in assumed}
        expired = [held for held in self._held.values() if now >= held.until]
        for held in expired:
            if not held.exact:
                self._release(held.key, self._being_bound(held.key, now))
            elif self._held.pop(held.placement.pod.uid, None) is not None:  # not released with its gang
                self._placer.request_binding(held.placement)
        self._forget_old()

    # --- private

    def _units(self) -> list[GangUnit]:
        """Return the gangs that may fit and have enough ready members, the best first."""
        with self._state.lock:
            self._request_tried()
            keys = [group.key for group in self._state.gangs.requested_gangs()]
        keys = [key for key in keys if self._cached(key) is None]
        with self._state.lock:
            units = [self._unit(key) for key in keys]
        return sorted((unit for unit in units if unit is not None and _is_ready(unit)), key=_rank)

    def _request_tried(self) -> None:
        """Request the gangs of pods that a scheduler tried before it first called the filter of this process.

        The caller holds the short lock.
        """
        waiting, gangs = self._state.waiting, self._state.gangs
        if len(waiting.schedulers) == self._schedulers:
            return
        self._schedulers = len(waiting.schedulers)
        for tried in waiting.tried():
            if (key := gangs.key(tried.pod.uid)) is not None:
                gangs.request(key, tried.spec.scheduler)

    def _unit(self, key: GroupKey) -> GangUnit | None:
        """Return the ready members of a gang, or None without a PodGroup. The caller holds the short lock."""
        gangs = self._state.gangs
        group = gangs.group(key)
        if group is None:
            return None
        pods = sorted(self._state.ready_members(key), key=_precedence)
        nodes = (
            self._state.ledger.node_of(uid) or "" for uid in gangs.members(key, MemberState.ASSUMED, MemberState.BOUND)
        )
        return GangUnit(group, tuple(pods), gangs.required(key), tuple(nodes))

    def _place_before(self, unit: GangUnit, now: float) -> None:
        """Place the gangs that precede a gang, so that its pods do not take their nodes."""
        before = [other for other in self._units() if other.rank < unit.rank]
        for other in before[:MAX_ATTEMPTS]:
            self._place(other, now)

    def _place(self, unit: GangUnit, now: float, *, filtered: str = "") -> str:
        """Place a gang; return why it does not fit. `filtered`: the pod that kube-scheduler filters now."""
        key = unit.group.key
        versions = self._versions(key)
        outcome = self._gang_placer.place(unit, self._excluded.get(key, {}), now, causes=bool(filtered))
        if isinstance(outcome, GangRejection):
            self._rejections.pop(key, None)
            if self._excluded.pop(key, None) is None and outcome.lasting and not self._is_delegated(unit):
                self._rejections[key] = _Rejection(versions, outcome.message if filtered else "")
            return outcome.message
        self._placer.refresh()
        self._rejections.pop(key, None)
        exact = self._direct_binding and self._is_exact(unit)
        for placement in outcome:
            pod = placement.pod
            if pod.uid == filtered:
                until = now + (FILTERED_TIMEOUT if exact else unit.group.schedule_timeout)
                self._hold(_Held(placement, key, until, exact))
            elif exact:
                self._placer.request_binding(placement)
            else:
                self._hold(_Held(placement, key, now + unit.group.schedule_timeout, exact))
                self._requeued[pod.uid] = pod
        with self._state.lock:
            for placement in outcome:
                self._state.unschedulable.remove(placement.pod.uid)
        return ""

    def _hold(self, held: _Held) -> None:
        uid = held.placement.pod.uid
        self._held[uid] = held
        self._state.hold(uid, held.until)

    def _is_exact(self, unit: GangUnit) -> bool:
        """Return whether our own filters decide exactly about all members."""
        with self._state.lock:
            waiting = self._state.waiting
            return all(waiting.is_exact(pod) for pod in unit.pods)

    def _is_delegated(self, unit: GangUnit) -> bool:
        """Return whether a member requests a resource that other nodes may provide when kube-scheduler filters it."""
        with self._state.lock:
            waiting = self._state.waiting
            return any(waiting.is_delegated(pod) for pod in unit.pods)

    def _exclude(self, held: _Held) -> None:
        """Exclude a node that kube-scheduler rejected for a pod, and forget the nodes held for the rest of the gang.

        kube-scheduler may be binding the pods that have passed filter, so these keep their nodes.
        """
        uid = held.placement.pod.uid
        excluded = self._excluded.setdefault(held.key, {})
        excluded[uid] = excluded.get(uid, frozenset()) | {held.placement.node}
        passed = {other for other, each in self._held.items() if each.passed and other != uid}
        self._release(held.key, passed)
        self._placer.refresh()

    def _being_bound(self, key: GroupKey, now: float) -> set[str]:
        """Return the members that kube-scheduler may still be binding."""
        return {uid for uid, held in self._held.items() if held.key == key and held.passed and now < held.until}

    def _release(self, key: GroupKey, kept: Collection[str] = ()) -> None:
        """Forget the nodes held for the pods of a gang, except those that are kept."""
        for uid, held in list(self._held.items()):
            if held.key == key and uid not in kept:
                del self._held[uid]
                self._state.forget(uid)

    def _versions(self, key: GroupKey) -> tuple[int, int, int]:
        nodes, rejections = self._placer.gang_table.version, self._placer.table.revision
        with self._state.lock:
            return nodes, rejections, self._state.gangs.version(key)

    def _cached(self, key: GroupKey) -> str | None:
        """Return why a gang does not fit, "" if unknown, or None if it may fit, since something has changed."""
        rejection = self._rejections.get(key)
        return rejection.message if rejection is not None and rejection.versions == self._versions(key) else None

    def _forget_old(self) -> None:
        """Drop the data of groups that no longer exist."""
        with self._state.lock:
            gangs = self._state.gangs
            for key in [key for key in {**self._excluded, **self._rejections} if gangs.group(key) is None]:
                self._excluded.pop(key, None)
                self._rejections.pop(key, None)


_name_key = lru_cache(1 << 14)(natural_key)


def _precedence(waiting: WaitingPod) -> tuple[int, float, tuple[bool, str, str]]:
    return (-waiting.spec.priority, waiting.spec.created, _name_key(waiting.pod.name))


def _rank(unit: GangUnit) -> tuple[bool, int, float, GroupKey]:
    return unit.rank


def _is_ready(unit: GangUnit) -> bool:
    return len(unit.pods) >= unit.required > 0
