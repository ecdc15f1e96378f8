"""Whatever happens between the API, kubelets, agents and the ledger, and in whatever order it learns of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.ledger_kubelets import ALL, EXCLUSIVE, SHARED, SINGLE, Kubelet, bound, kind_of, shape_of
from zonewise_scheduler.admission.node import Policies, idle_node
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.report.node_report import NodeReport

SETTLE = 90.0
LATE = 60.0
"""Everything is delivered by then."""

SHAPES = [
    *(shape_of((cpus, gpus)) for cpus, gpus in ((1, 0), (2, 1), (3, 0), (4, 2), (5, 0), (7, 1), (0, 1))),
    shape_of((2, 0), (3, 1)),
    shape_of((1, 1), (6, 0)),
    shape_of((2, 0), gib=3),
    shape_of((9, 0)),
    SHARED,
]
KINDS = [
    kind_of(SINGLE),
    kind_of(SINGLE._replace(scope="pod"), zones=3, cpus=6),
    kind_of(SINGLE, zones=2, cpus=6, gib=6),
    kind_of(Policies(topology="restricted", cpu="static")),
    kind_of(Policies(topology="restricted", cpu="static", scope="pod"), zones=3, cpus=4),
    kind_of(Policies(topology="best-effort", cpu="static")),
    kind_of(Policies(cpu="static"), cpus=5),
]
METHODS = [(ALL, EXCLUSIVE), (ALL,), (EXCLUSIVE,), ()]


@dataclass(eq=False)
class Pod:
    """A pod as the API has it, and how it came to be."""

    it: PendingPod
    node: str
    ours: bool
    base: int
    """The version of the report that it was promised on."""
    made: float
    bound: bool = False
    seen: bool = False
    """Its kubelet has decided."""
    started: float | None = None
    deleted: float | None = None
    """By force: its kubelet has yet to stop it."""
    disturbed: bool = False
    """A pod of others came after it was promised, or before without the ledger's knowing."""


class History(RuleBasedStateMachine):
    """Pods of ours are never refused, unless pods of others, or ends of pods, came between promise and admission.

    (An end gives room, and a kubelet fills the lowest zone that has any: the pods that follow get other zones than
    foretold, and a later one may find none. No prediction can have that.) When all is told nothing is left charged.
    """

    @initialize(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2), others=st.booleans(), data=st.data())
    def begin(self, kinds: list[NodeKind], others: bool, data: st.DataObject) -> None:
        self.at = 0.0
        self.others = others
        self.serial = 0
        self.ledger = Ledger()
        self.shown: dict[str, NodeState | None] = {}
        self.misses = 0
        self.kubelets: dict[str, Kubelet] = {}
        for place, kind in enumerate(kinds):
            methods, hidden = data.draw(st.sampled_from(METHODS)), data.draw(st.booleans())
            self.kubelets[f"n{place}"] = Kubelet(f"n{place}", idle_node(kind), methods, hidden)
        self.alive: list[Pod] = []
        self.events: list[tuple[str, Pod, float | None]] = []
        self.under_way: list[tuple[NodeReport, float]] = []
        self.published: dict[str, NodeReport] = {}
        self.known: dict[str, int] = dict.fromkeys(self.kubelets, 0)
        self.unpublished: dict[str, float] = {}
        for node in self.kubelets:
            self.publish(node)
            self._report(self.published[node])

    # --- what can happen

    @rule(shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4), node=st.integers(0, 1), again=st.booleans())
    def promise(self, shapes: list[PodShape], node: int, again: bool) -> None:
        for shape in shapes:
            self._promise(shape, node, again)

    def _promise(self, shape: PodShape, node: int, again: bool) -> None:
        where = list(self.kubelets)[node % len(self.kubelets)]
        pod = Pod(self._named(shape), where, True, self.known[where], self.at)
        pod.disturbed = any(
            kind == "bound" and not other.ours and other.node == where for kind, other, _ in self.events
        )
        verdict = self.ledger.assume(pod.it, where, self.at)
        if again:
            before = self.ledger.state(where)
            assert self.ledger.assume(pod.it, where, self.at).admitted == verdict.admitted
            assert self.ledger.state(where) == before
        if verdict.admitted:
            self.alive.append(pod)

    @rule(which=st.integers(0, 99))
    def withdraw(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.ours and not pod.bound):
            self.ledger.forget(pod.it.uid, self.at)
            self.alive.remove(pod)

    @rule(which=st.integers(0, 99), count=st.integers(1, 3))
    def bind(self, which: int, count: int) -> None:
        for _ in range(count):
            for pod in self._pick(which, lambda pod: not pod.bound):
                self._bind(pod)

    @rule(shape=st.sampled_from(SHAPES), node=st.integers(0, 1))
    @precondition(lambda self: self.others)
    def another_scheduler_binds(self, shape: PodShape, node: int) -> None:
        where = list(self.kubelets)[node % len(self.kubelets)]
        for pod in self.alive:
            pod.disturbed |= pod.node == where
        pod = Pod(self._named(shape), where, False, 0, self.at, disturbed=True)
        self.alive.append(pod)
        self._bind(pod)

    @rule(which=st.integers(0, 99), count=st.integers(1, 3))
    def a_kubelet_sees(self, which: int, count: int) -> None:
        for _ in range(count):
            for pod in self._pick(which, lambda pod: pod.bound and not pod.seen):
                self._see(pod)

    @rule(which=st.integers(0, 99))
    def a_pod_ends(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.started is not None and pod.deleted is None):
            self._stop(pod)
            self.events.append(("ended", pod, None))
            self.alive.remove(pod)

    @rule(which=st.integers(0, 99))
    def a_pod_is_deleted_before_it_starts(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.bound and not pod.seen):
            self.events.append(("ended", pod, None))
            self.alive.remove(pod)

    @rule(which=st.integers(0, 99))
    def a_pod_is_deleted_by_force(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.started is not None and pod.deleted is None):
            pod.deleted = self.at
            self.events.append(("gone", pod, None))

    @rule(which=st.integers(0, 99))
    def a_kubelet_stops_what_was_deleted(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.deleted is not None):
            self._stop(pod)
            self.alive.remove(pod)

    @rule(node=st.integers(0, 1))
    def an_agent_publishes(self, node: int) -> None:
        self.publish(list(self.kubelets)[node % len(self.kubelets)])

    # --- what the ledger learns of it

    @rule()
    def an_event_comes(self) -> None:
        if self.events:
            self._deliver(*self.events.pop(0))

    @rule(which=st.integers(0, 99), twice=st.booleans())
    def a_report_comes(self, which: int, twice: bool) -> None:
        if self.under_way:
            report, when = self.under_way.pop(which % len(self.under_way))
            self._report(report)
            if twice:
                self.under_way.append((report, when))

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: len(self.under_way) > 1)
    def a_report_is_lost(self, which: int) -> None:
        self.under_way.pop(which % len(self.under_way))

    @rule(node=st.integers(0, 1))
    def a_report_is_taken_away_and_comes_back(self, node: int) -> None:
        where = list(self.kubelets)[node % len(self.kubelets)]
        self.ledger.remove_report(where, self.at)
        assert self.ledger.state(where) is None
        self.under_way = [(report, when) for report, when in self.under_way if report.node != where]
        self.known[where] = 0
        self.publish(where)
        self._report(self.published[where])

    @rule()
    def the_ledger_is_opened_anew(self) -> None:
        self.ledger = Ledger()
        self.shown = {}
        self.misses = 0
        self.alive = [pod for pod in self.alive if pod.bound]
        self.events.clear()
        for pod in self.alive:
            if pod.deleted is None:
                self.ledger.add_pod(bound(pod.it, pod.node, pod.started), self.at)
        for pod in self.alive:
            if pod.deleted is not None:
                for other in self.alive:
                    other.disturbed |= other.node == pod.node
        self.under_way.clear()
        for node, report in self.published.items():
            self.known[node] = 0
            self._report(report)

    @rule(seconds=st.sampled_from([0.5, 5.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.at += seconds
        for pod in [pod for pod in self.alive if not pod.bound and pod.made + LATE <= self.at]:
            self.ledger.forget(pod.it.uid, self.at)
            self.alive.remove(pod)
        for pod in [pod for pod in self.alive if pod.deleted is not None and pod.deleted + LATE <= self.at]:
            self._stop(pod)
            self.alive.remove(pod)
        if self.events:
            self._deliver_all()
        for node, since in list(self.unpublished.items()):
            if since + LATE <= self.at:
                self.publish(node)
        for report, when in list(self.under_way):
            if when + LATE / 2 <= self.at:
                self._report(report)
        self.under_way = [(report, when) for report, when in self.under_way if when + LATE / 2 > self.at]
        self.ledger.tick(self.at)

    # --- what always holds

    @invariant()
    def counts_agree(self) -> None:
        counters = self.ledger.counters()
        assert sum(count for _, count in counters.missed) == self.misses
        assert counters.in_flight == sum(len(self.ledger.assumed_pods(node)) for node in self.kubelets)

    @invariant()
    def changes_are_told(self) -> None:
        for node in self.ledger.changed_nodes():
            self.shown[node] = self.ledger.state(node)
        for node in self.kubelets:
            assert self.shown.get(node) == self.ledger.state(node)

    def teardown(self) -> None:
        """In the end, when all is seen and told, and a settle time has passed, all is as the reports have it."""
        if not hasattr(self, "kubelets"):
            return
        self._deliver_all()
        for pod in [pod for pod in self.alive if not pod.bound]:
            self._bind(pod)
        for pod in [pod for pod in self.alive if not pod.seen]:
            self._see(pod)
        for pod in [pod for pod in self.alive if pod.deleted is not None]:
            self._stop(pod)
        self._deliver_all()
        self.at += LATE
        for node in self.kubelets:
            self.publish(node)
        for report, _ in self.under_way:
            self._report(report)
        self.at += SETTLE
        self.ledger.tick(self.at)
        for node, kubelet in self.kubelets.items():
            assert self.ledger.assumed_pods(node) == ()
            assert self.ledger.state(node) == kubelet.state
        assert self.ledger.counters().blocked == 0

    # --- how

    def _named(self, shape: PodShape) -> PendingPod:
        """A pod; now and then one of the name of a pod that is gone."""
        self.serial += 1
        taken = {pod.it.name for pod in self.alive}
        name = next(name for name in (f"p{one}" for one in range(100)) if name not in taken)
        return PendingPod(f"uid-{self.serial}", "jobs", name, shape)

    def _pick(self, which: int, wanted: Callable[[Pod], bool]) -> list[Pod]:
        found = [pod for pod in self.alive if wanted(pod)]
        return [found[which % len(found)]] if found else []

    def _bind(self, pod: Pod) -> None:
        pod.bound = True
        self.events.append(("bound", pod, None))

    def _see(self, pod: Pod) -> None:
        kubelet = self.kubelets[pod.node]
        verdict = kubelet.sees(pod.it)
        pod.seen = True
        self.unpublished.setdefault(pod.node, self.at)
        if verdict.admitted:
            pod.started = self.at
            self.events.append(("bound", pod, self.at))
            return
        assert pod.disturbed or kubelet.ended >= pod.base, f"{pod.it.name} was promised"
        self.events.append(("refused", pod, None))
        self.alive.remove(pod)

    def _stop(self, pod: Pod) -> None:
        self.kubelets[pod.node].ends(pod.it.uid)
        self.unpublished.setdefault(pod.node, self.at)

    def publish(self, node: str) -> None:
        self.unpublished.pop(node, None)
        report = self.published[node] = self.kubelets[node].report()
        self.under_way.append((report, self.at))

    def _report(self, report: NodeReport) -> None:
        self.known[report.node] = max(self.known[report.node], int(report.version))
        self.ledger.update_report(report, self.at)

    def _deliver_all(self) -> None:
        for event in self.events:
            self._deliver(*event)
        self.events.clear()

    def _deliver(self, kind: str, pod: Pod, started: float | None) -> None:
        if kind == "bound":
            self.ledger.add_pod(bound(pod.it, pod.node, started), self.at)
        elif kind == "refused":
            miss = self.ledger.reject_pod(pod.it.uid, "TopologyAffinityError", "", self.at)
            self.misses += miss is not None
        else:
            self.ledger.remove_pod(pod.it.uid, self.at, terminated=kind == "ended")


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
