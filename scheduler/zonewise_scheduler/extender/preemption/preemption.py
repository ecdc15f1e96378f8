"""Preemption for zones: by the extender if kube-scheduler finds no victims, and as its verb `preempt` if it does.

kube-scheduler searches for victims on nodes that its own filters reject. A node with enough CPUs, but without a zone
that has enough, passes these filters without any victim. So kube-scheduler does not consider the node a candidate
(DryRunPreemption of pkg/scheduler/framework/preemption/preemption.go: "expected at least one victim pod"). On such
nodes the extender itself preempts. kube-scheduler calls the verb a moment after filter. So the extender waits for
GRACE, and only one of the two preempts for a pod: the one with the cheaper victims.

For the members of a gang, only the extender preempts, for all of them together or not at all. The verb offers it the
nodes that are full as a whole: kube-scheduler filters no member if all nodes are.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.probe import PROBE_PERIOD
from zonewise_common.kube.resources import POD_DISRUPTION_BUDGETS
from zonewise_scheduler.extender.objects.disruption_budgets import DisruptionBudgets, decode_disruption_budget
from zonewise_scheduler.extender.objects.served import Served
from zonewise_scheduler.extender.optional_informer import OptionalInformer
from zonewise_scheduler.extender.preemption.evictor import Evictor
from zonewise_scheduler.extender.preemption.preemption_planner import PreemptionPlanner
from zonewise_scheduler.nodes.preemption.cost import cheapest, victims_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.types import ProposedVictims
    from zonewise_scheduler.nodes.preemption.plan import PreemptionPlan
    from zonewise_scheduler.nodes.preemption.types import Preemptor, Victims
    from zonewise_scheduler.quota.api.pod_group_key import GroupKey

log = logging.getLogger(__name__)

GRACE = 0.3
"""Seconds after filter during which kube-scheduler's verb takes precedence."""
PERIOD = 0.1
"""Seconds between checks for offers whose grace period is over."""
MAX_OFFERS = 256
"""Maximum number of pods that wait for preemption, each with the names of its candidates. kube-scheduler retries the
others."""
_STOP_TIMEOUT = 1.0
"""Seconds."""

Claims = Sequence[tuple["Preemptor", str]]
"""Pods that preempt together, each with its node."""


class _Offer(NamedTuple):
    preemptor: Preemptor
    names: Sequence[str]
    due: float
    group: GroupKey | None
    """PodGroup of a member of a gang."""


class Preemption:
    """See the module. Works while the context is entered."""

    def __init__(
        self,
        client: Client,
        state: ClusterState,
        fallback: FallbackPolicy,
        clock: Callable[[], float],
        metrics: ExtenderMetrics,
        *,
        probe_period: float = PROBE_PERIOD,
    ) -> None:
        """`probe_period`: as in OptionalInformer, for PodDisruptionBudgets."""
        self._state = state
        self._clock = clock
        self._metrics = metrics
        self._evictor = Evictor(client)
        self._budgets = DisruptionBudgets(clock)
        self._planner = PreemptionPlanner(state, self._budgets, fallback)
        self._informer = OptionalInformer(
            client, (POD_DISRUPTION_BUDGETS,), decode_disruption_budget, self._budgets.update, self._set_budgets_served,
            probe_period=probe_period,
        )  # fmt: skip
        self._lock = threading.Lock()  # protects the offers
        self._offers: dict[str, _Offer] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="preemption", daemon=True)

    def __enter__(self) -> Preemption:
        self._informer.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._informer.__exit__()
        self._thread.join(_STOP_TIMEOUT)

    # --- from kube-scheduler

    def offer(self, preemptor: Preemptor, names: Callable[[], Sequence[str]], group: GroupKey | None = None) -> None:
        """Let a rejected pod, or its whole gang, preempt on the named nodes, unless it already does.

        The nodes of repeated offers add up: those that kube-scheduler's filters pass, and those that it proposes.
        """
        with self._state.lock:
            if not self._state.running.has_below(preemptor.priority):
                return
            if self._state.nominated.nominations.get(preemptor.uid) is not None:
                return
        offer = _Offer(preemptor, names(), time.monotonic() + GRACE, group)
        with self._lock:
            earlier = self._offers.get(preemptor.uid)
            if earlier is not None:
                offer = earlier._replace(names=list(dict.fromkeys((*earlier.names, *offer.names))))
            if earlier is not None or len(self._offers) < MAX_OFFERS:
                self._offers[preemptor.uid] = offer

    def nominated_node(self, uid: str) -> str:
        """Return the node on which a pod waits for its victims to end, or "" if it does not wait."""
        with self._state.lock:
            nomination = self._state.nominated.nominations.get(uid)
            return nomination.node if nomination is not None else ""

    def preempt(self, preemptor: Preemptor, proposed: Mapping[str, ProposedVictims]) -> dict[str, tuple[str, ...]]:
        """Return the UIDs of the exact victims on the nodes that kube-scheduler proposes.

        The result is empty if the extender itself preempts for the pod elsewhere, with victims that cost less.
        """
        if not self._budgets.are_known or self.nominated_node(preemptor.uid):
            return {}
        refined = self._planner.refine(preemptor, proposed)
        best = cheapest(refined)
        with self._lock:
            offer = self._offers.get(preemptor.uid)
        if offer is not None and best is not None:
            own = self._planner.plan(preemptor, offer.names).victims
            if own is not None and victims_cost(own.pods) < victims_cost(best.pods):
                return {}
            with self._lock:
                self._offers.pop(preemptor.uid, None)
        victims = {each.node: tuple(pod.uid for pod in each.pods) for each in refined}
        with self._state.lock:
            if not self._state.is_gone(preemptor.uid):  # no later event would end the proposal
                self._state.nominated.nominations.propose(preemptor, victims, self._clock())
        if best is not None:
            self._metrics.count_preemption("kube-scheduler", len(best.pods))
        return victims

    # --- our own

    def _set_budgets_served(self, served: Served) -> None:
        self._budgets.set_served(served)
        self._metrics.set_budgets_forbidden(forbidden=served is Served.FORBIDDEN)
        if served is Served.FORBIDDEN:
            log.warning(
                "preemption is off: the extender lacks the permission to list and watch poddisruptionbudgets.policy"
            )

    def _run(self) -> None:
        while not self._stopping.wait(PERIOD):
            for offer in self._due_offers():
                try:
                    self._handle(offer)
                except Exception:  # a bug must not end the loop
                    log.exception("pod=%s/%s preemption failed", offer.preemptor.namespace, offer.preemptor.name)

    def _due_offers(self) -> list[_Offer]:
        """Take the offers whose grace period is over, most important pod first; drop all if preemption is off."""
        if not self._budgets.are_known:
            if self._budgets.are_forbidden:
                with self._lock:
                    self._offers.clear()
            return []
        now = time.monotonic()
        with self._lock:
            due = [offer for offer in self._offers.values() if offer.due <= now]
            for offer in due:
                del self._offers[offer.preemptor.uid]
        return sorted(due, key=lambda offer: (-offer.preemptor.priority, offer.due))

    def _handle(self, offer: _Offer) -> None:
        if offer.group is not None:
            self._handle_gang(offer.preemptor, offer.group, offer.names)
            return
        preemptor = offer.preemptor
        if not self._may_preempt([preemptor]):
            return
        plan = self._planner.plan(preemptor, offer.names)
        if plan.victims is None or not self._preempt_for([(preemptor, plan.victims.node)], [plan.victims]):
            self._log_none(preemptor, plan)

    def _handle_gang(self, preemptor: Preemptor, group: GroupKey, names: Sequence[str]) -> None:
        preemption = self._planner.plan_gang(group, names)
        if preemption is None or not self._may_preempt([member for member, _ in preemption.claims]):
            log.debug("pod=%s/%s %s does not preempt", preemptor.namespace, preemptor.name, group)
            return
        self._preempt_for(preemption.claims, preemption.victims)

    def _may_preempt(self, preemptors: Sequence[Preemptor]) -> bool:
        """Return whether pods still wait, and no victims are already ending for any of them."""
        state = self._state
        with state.lock:
            return all(
                preemptor.uid in state.waiting
                and state.ledger.node_of(preemptor.uid) is None
                and state.nominated.nominations.get(preemptor.uid) is None
                for preemptor in preemptors
            )

    def _preempt_for(self, claims: Claims, victims: Sequence[Victims]) -> bool:
        """Nominate pods and evict their victims; return False if the victims no longer suffice."""
        if not self._begin(claims, victims):
            return False
        evicted = self._evict(claims, victims) if self._nominate(claims) else 0
        if evicted < sum(len(each.pods) for each in victims):
            self._end(claims)  # the rest is decided again when kube-scheduler retries the pods
        if evicted:
            self._metrics.count_preemption("zonewise", evicted)
            preemptor, _ = claims[0]
            self._evictor.write_preemptor_event(preemptor, ", ".join(each.node for each in victims), evicted)
        return True

    def _begin(self, claims: Claims, victims: Sequence[Victims]) -> bool:
        """Begin the nominations of pods; return False if the victims no longer suffice."""
        uids = [pod.uid for each in victims for pod in each.pods]
        state = self._state
        with state.lock:
            nominated = state.nominated
            for preemptor, node in claims:
                nominated.begin(preemptor, node, uids, self._clock())
            nominations = [nominated.nominations.get(preemptor.uid) for preemptor, _ in claims]
            suffices = all(each is not None and nominated.is_admitted(each) for each in nominations)
        if not suffices:
            self._end(claims)
        return suffices

    def _end(self, claims: Claims) -> None:
        with self._state.lock:
            for preemptor, _ in claims:
                self._state.end_nomination(preemptor.uid)

    def _nominate(self, claims: Claims) -> bool:
        """Publish the nominated node of each pod for kube-scheduler; return False if a pod is gone, or on an error."""
        for preemptor, node in claims:
            try:
                if not self._evictor.nominate(preemptor, node):
                    return False
            except KubeError as error:
                log.warning("pod=%s/%s node=%s not nominated: %s", preemptor.namespace, preemptor.name, node, error)
                return False
        return True

    def _evict(self, claims: Claims, victims: Sequence[Victims]) -> int:
        """Evict victims up to the first error; return their number."""
        preemptor, _ = claims[0]
        evicted = 0
        for each in victims:
            for pod in each.pods:
                if not self._evictor.evict(pod, preemptor, each.node):
                    return evicted
                self._budgets.record_eviction(pod.budgets)
                evicted += 1
        return evicted

    def _log_none(self, preemptor: Preemptor, plan: PreemptionPlan) -> None:
        reason = f"waits for pods that end on {plan.waiting_for}" if plan.waiting_for else "no victims"
        log.debug("pod=%s/%s does not preempt: %s", preemptor.namespace, preemptor.name, reason)
