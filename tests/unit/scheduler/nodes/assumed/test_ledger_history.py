"""Random histories of the API, kubelets, agents and the ledger; events and reports are delivered in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.ledger_kubelets import (
    ALL,
    EXCLUSIVE,
    SHARED,
    SINGLE,
    Kubelet,
    bound_pod,
    node_kind,
    pod_shape,
    pod_times,
)
from zonewise_scheduler.admission.node import Policies, idle_node
from zonewise_scheduler.extender.objects.start_times import read_start_times
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import PendingPod

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.assumed.types import BoundPod

REPORT_LAG = 90.0
DELIVERY_TIME = 60.0
"""The time within which every event and report is delivered, in seconds."""

SHAPES = [
    *(pod_shape((cpus, gpus)) for cpus, gpus in ((1, 0), (2, 1), (3, 0), (4, 2), (5, 0), (7, 1), (0, 1))),
    pod_shape((2, 0), (3, 1)),
    pod_shape((1, 1), (6, 0)),
    pod_shape((2, 0), gib=3),
    pod_shape((9, 0)),
    SHARED,
]
KINDS = [
    node_kind(SINGLE),
    node_kind(SINGLE._replace(scope="pod"), zones=3, cpus=6),
    node_kind(SINGLE, zones=2, cpus=6, gib=6),
    node_kind(Policies(topology="restricted", cpu="static")),
    node_kind(Policies(topology="restricted", cpu="static", scope="pod"), zones=3, cpus=4),
    node_kind(Policies(topology="best-effort", cpu="static")),
    node_kind(Policies(cpu="static"), cpus=5),
]
METHODS = [(ALL, EXCLUSIVE), (ALL,), (EXCLUSIVE,), ()]


@dataclass(eq=False)
class Pod:
    """A pod as the API server has it, and its history."""

    pending: PendingPod
    node: str
    is_ours: bool
    report_version: int
    """Version of the report at the time of the prediction."""
    assumed_at: float
    bound: bool = False
    bound_at: float = 0.0
    """In true time, like the API server's stamps; the same applies to `status_at`."""
    status_at: float = 0.0
    """When its kubelet last wrote its status."""
    decided: bool = False
    """True if the kubelet has admitted or rejected the pod."""
    started: float | None = None
    deleted: float | None = None
    """When the pod was deleted by force. Its kubelet frees its resources before it decides about later pods."""
    written: int = 0
    """The number of the write that bound the pod or deleted it by force."""
    disturbed: bool = False
    """True if another scheduler's pod came after the assumption, or before it without the ledger's knowledge."""


class History(RuleBasedStateMachine):
    """Assumed pods are never rejected, unless pods of others come, or pods end, between prediction and admission.

    The end of a pod frees resources, and the kubelet allocates from the lowest zone that has any. Later pods may
    therefore get other zones than predicted, and one of them may be rejected. No prediction can prevent that. After
    everything is delivered, no pod is assumed.
    """

    @initialize(
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2), has_others=st.booleans(), data=st.data()
    )
    def begin(self, kinds: list[NodeKind], has_others: bool, data: st.DataObject) -> None:
        """Start with different clocks: `at` is the API server's, and those of the ledger and the nodes have errors."""
        self.at = 0.0
        self.ledger_error = data.draw(st.sampled_from([0.0, -3600.0, 3600.0]))
        self.node_errors: dict[str, float] = {}
        self.has_others = has_others
        self.last_uid = 0
        self.writes = 0
        self.ledger = Ledger()
        self.last_states: dict[str, NodeState | None] = {}
        self.mispredictions = 0
        self.kubelets: dict[str, Kubelet] = {}
        for index, kind in enumerate(kinds):
            methods, hidden = data.draw(st.sampled_from(METHODS)), data.draw(st.booleans())
            self.kubelets[f"n{index}"] = Kubelet(f"n{index}", idle_node(kind), methods, hidden)
            self.node_errors[f"n{index}"] = data.draw(st.sampled_from([0.0, -3600.0, 3600.0, -20.0, 20.0]))
        self.living: list[Pod] = []
        self.events: list[tuple[str, Pod, float | None]] = []
        self.reports_under_way: list[tuple[NodeReport, float]] = []
        self.versions: dict[tuple[str, int], NodeReport] = {}
        self.restored: set[str] = set()
        """Nodes whose last delivered report was written before their pods."""
        self.published_at: dict[tuple[str, str], float] = {}
        """Time of publication by node and version."""
        self.published: dict[str, NodeReport] = {}
        self.known_versions: dict[str, int] = dict.fromkeys(self.kubelets, 0)
        self.unpublished: dict[str, float] = {}
        for node in self.kubelets:
            self.publish(node)
            self._report(self.published[node])

    # --- events

    @rule(
        shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4), node=st.integers(0, 1), repeat=st.booleans()
    )
    def assume(self, shapes: list[PodShape], node: int, repeat: bool) -> None:
        for shape in shapes:
            self._assume(shape, node, repeat)

    def _assume(self, shape: PodShape, node: int, repeat: bool) -> None:
        node_name = list(self.kubelets)[node % len(self.kubelets)]
        pod = Pod(self._next_pod(shape), node_name, True, self.known_versions[node_name], self.at)
        pod.disturbed = any(
            kind == "bound" and not pod_of_others.is_ours and pod_of_others.node == node_name
            for kind, pod_of_others, _ in self.events
        )
        pod.disturbed |= node_name in self.restored
        verdict = self.ledger.assume(pod.pending, node_name, self.now)
        if repeat:
            before = self.ledger.state(node_name)
            assert self.ledger.assume(pod.pending, node_name, self.now).admitted == verdict.admitted
            assert self.ledger.state(node_name) == before
        if verdict.admitted:
            self.living.append(pod)

    @rule(which=st.integers(0, 99))
    def forget(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.is_ours and not pod.bound):
            self.ledger.forget(pod.pending.uid, self.now)
            self.living.remove(pod)

    @rule(which=st.integers(0, 99), count=st.integers(1, 3))
    def bind(self, which: int, count: int) -> None:
        for _ in range(count):
            for pod in self._pick(which, lambda pod: not pod.bound):
                self._bind(pod)

    @rule(shape=st.sampled_from(SHAPES), node=st.integers(0, 1))
    @precondition(lambda self: self.has_others)
    def another_scheduler_binds(self, shape: PodShape, node: int) -> None:
        node_name = list(self.kubelets)[node % len(self.kubelets)]
        for pod in self.living:
            pod.disturbed |= pod.node == node_name
        pod = Pod(self._next_pod(shape), node_name, False, 0, self.at, disturbed=True)
        self.living.append(pod)
        self._bind(pod)

    @rule(which=st.integers(0, 99), count=st.integers(1, 3))
    def kubelet_decides(self, which: int, count: int) -> None:
        for _ in range(count):
            for pod in self._pick(which, lambda pod: pod.bound and not pod.decided):
                self._decide(pod)

    @rule(which=st.integers(0, 99))
    def kubelet_writes_a_status(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.started is not None and pod.deleted is None):
            pod.status_at = self.at
            self.events.append(("bound", pod, pod.started))

    @rule(which=st.integers(0, 99))
    def pod_ends(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.started is not None and pod.deleted is None):
            self._stop(pod)
            self.events.append(("ended", pod, None))
            self.living.remove(pod)

    @rule(which=st.integers(0, 99))
    def pod_is_deleted_before_it_starts(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.bound and not pod.decided):
            self.events.append(("ended", pod, None))
            self.living.remove(pod)

    @rule(which=st.integers(0, 99))
    def pod_is_deleted_by_force(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.started is not None and pod.deleted is None):
            pod.deleted, pod.written = self.at, self._next_write()
            self.events.append(("deleted", pod, None))

    @rule(which=st.integers(0, 99))
    def kubelet_stops_deleted_pod(self, which: int) -> None:
        for pod in self._pick(which, lambda pod: pod.deleted is not None):
            self._stop_deleted(pod)

    @rule(node=st.integers(0, 1))
    def agent_publishes(self, node: int) -> None:
        self.publish(list(self.kubelets)[node % len(self.kubelets)])

    # --- deliveries to the ledger

    @rule()
    def event_is_delivered(self) -> None:
        if self.events:
            self._deliver(*self.events.pop(0))

    @rule(which=st.integers(0, 99), repeat=st.booleans())
    def report_is_delivered(self, which: int, repeat: bool) -> None:
        if self.reports_under_way:
            report, sent_at = self.reports_under_way.pop(which % len(self.reports_under_way))
            self._report(report)
            if repeat:
                self.reports_under_way.append((report, sent_at))

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: len(self.reports_under_way) > 1)
    def report_is_lost(self, which: int) -> None:
        self.reports_under_way.pop(which % len(self.reports_under_way))

    @rule(node=st.integers(0, 1))
    def report_is_removed_and_returns(self, node: int) -> None:
        node_name = list(self.kubelets)[node % len(self.kubelets)]
        self.ledger.remove_report(node_name, self.now)
        assert self.ledger.state(node_name) is None
        self.reports_under_way = [
            (report, sent_at) for report, sent_at in self.reports_under_way if report.node != node_name
        ]
        self.known_versions[node_name] = 0
        self.publish(node_name)
        self._report(self.published[node_name])

    @rule(node=st.integers(0, 1), back=st.integers(1, 3))
    def etcd_is_restored(self, node: int, back: int) -> None:
        """An old report is restored, later versions are lower, and the agent has not yet noticed."""
        node_name = list(self.kubelets)[node % len(self.kubelets)]
        kubelet, known = self.kubelets[node_name], self.known_versions[node_name]
        version = max(1, kubelet.reports - back)
        old = self.versions[node_name, version]
        stamp = self.published_at[node_name, old.version]
        self.ledger.update_report(old, self.now, published=stamp, replaces=str(known))
        self.known_versions[node_name] = kubelet.reports = version
        kubelet.ended = min(kubelet.ended, version)
        self.published[node_name] = old
        self.reports_under_way = [entry for entry in self.reports_under_way if entry[0].node != node_name]
        self.unpublished.setdefault(node_name, self.at)
        self.restored.add(node_name)
        for pod in self.living:
            pod.disturbed |= pod.node == node_name

    @rule()
    def ledger_restarts(self) -> None:
        self.ledger = Ledger()
        self.last_states = {}
        self.mispredictions = 0
        self.living = [pod for pod in self.living if pod.bound]
        self.events.clear()
        for pod in self.living:
            if pod.deleted is None:
                self.ledger.add_pod(self.observed(pod, pod.started), self.now)
        for pod in self.living:
            if pod.deleted is not None:
                for neighbour in self.living:
                    neighbour.disturbed |= neighbour.node == pod.node
        self.reports_under_way.clear()
        for node, report in self.published.items():
            self.known_versions[node] = 0
            self._report(report)

    @rule(seconds=st.sampled_from([0.5, 5.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.at += seconds
        for pod in [pod for pod in self.living if not pod.bound and pod.assumed_at + DELIVERY_TIME <= self.at]:
            self.ledger.forget(pod.pending.uid, self.now)
            self.living.remove(pod)
        for pod in [pod for pod in self.living if pod.deleted is not None and pod.deleted + DELIVERY_TIME <= self.at]:
            self._stop_deleted(pod)
        if self.events:
            self._deliver_all()
        for node, since in list(self.unpublished.items()):
            if since + DELIVERY_TIME <= self.at:
                self.publish(node)
        for report, sent_at in list(self.reports_under_way):
            if sent_at + DELIVERY_TIME / 2 <= self.at:
                self._report(report)
        self.reports_under_way = [
            (report, sent_at) for report, sent_at in self.reports_under_way if sent_at + DELIVERY_TIME / 2 > self.at
        ]
        self.ledger.tick(self.now)

    # --- invariants

    @invariant()
    def counts_agree(self) -> None:
        counters = self.ledger.counters()
        assert sum(count for _, count in counters.mispredicted) == self.mispredictions
        assert counters.assumed == sum(len(self.ledger.assumed_pods(node)) for node in self.kubelets)

    @invariant()
    def changed_nodes_are_complete(self) -> None:
        for node in self.ledger.changed_nodes():
            self.last_states[node] = self.ledger.state(node)
        for node in self.kubelets:
            assert self.last_states.get(node) == self.ledger.state(node)

    def teardown(self) -> None:
        """Check that the states are those of the reports after everything is delivered and report_lag has passed."""
        if not hasattr(self, "kubelets"):
            return
        self._deliver_all()
        for pod in [pod for pod in self.living if not pod.bound]:
            self._bind(pod)
        for pod in [pod for pod in self.living if not pod.decided]:
            self._decide(pod)
        for pod in [pod for pod in self.living if pod.deleted is not None]:
            self._stop(pod)
        self._deliver_all()
        self.at += DELIVERY_TIME
        for node in self.kubelets:
            self.publish(node)
        for report, _ in self.reports_under_way:
            self._report(report)
        self.at += REPORT_LAG
        self.ledger.tick(self.now)
        for node, kubelet in self.kubelets.items():
            assert self.ledger.assumed_pods(node) == ()
            assert self.ledger.state(node) == kubelet.state
        assert self.ledger.counters().blocked == 0

    # --- helpers

    @property
    def now(self) -> float:
        """Return the time by the ledger's clock."""
        return self.at + self.ledger_error

    def observed(self, pod: Pod, started: float | None) -> BoundPod:
        """Return the pod as the API server shows it."""
        if started is None:
            return bound_pod(pod.pending, pod.node)
        times = read_start_times(pod_times(pod.bound_at, started + self.node_errors[pod.node], pod.status_at))
        return bound_pod(pod.pending, pod.node, *times)

    def _next_pod(self, shape: PodShape) -> PendingPod:
        """Return a new pod, sometimes with the name of a pod that has ended."""
        self.last_uid += 1
        names_in_use = {pod.pending.name for pod in self.living}
        name = next(name for name in (f"p{index}" for index in range(100)) if name not in names_in_use)
        return PendingPod(f"uid-{self.last_uid}", "jobs", name, shape)

    def _pick(self, which: int, predicate: Callable[[Pod], bool]) -> list[Pod]:
        candidates = [pod for pod in self.living if predicate(pod)]
        return [candidates[which % len(candidates)]] if candidates else []

    def _bind(self, pod: Pod) -> None:
        pod.bound, pod.bound_at, pod.written = True, self.at, self._next_write()
        self.events.append(("bound", pod, None))

    def _decide(self, pod: Pod) -> None:
        kubelet = self.kubelets[pod.node]
        for deleted in [other for other in self.living if other.node == pod.node and other.deleted is not None]:
            if deleted.written < pod.written:
                self._stop_deleted(deleted)
        verdict = kubelet.decide(pod.pending)
        pod.decided = True
        self.unpublished.setdefault(pod.node, self.at)
        if verdict.admitted:
            pod.started = pod.status_at = self.at
            self.events.append(("bound", pod, self.at))
            return
        assert pod.disturbed or kubelet.ended >= pod.report_version, f"{pod.pending.name} was predicted to be admitted"
        self.events.append(("rejected", pod, None))
        self.living.remove(pod)

    def _stop(self, pod: Pod) -> None:
        self.kubelets[pod.node].end_pod(pod.pending.uid)
        self.unpublished.setdefault(pod.node, self.at)

    def _stop_deleted(self, pod: Pod) -> None:
        self._stop(pod)
        self.living.remove(pod)

    def _next_write(self) -> int:
        self.writes += 1
        return self.writes

    def publish(self, node: str) -> None:
        self.unpublished.pop(node, None)
        report = self.published[node] = self.kubelets[node].report()
        self.published_at[node, report.version] = self.at
        self.versions[node, int(report.version)] = report
        self.reports_under_way.append((report, self.at))

    def _report(self, report: NodeReport) -> None:
        self.known_versions[report.node] = max(self.known_versions[report.node], int(report.version))
        if report is self.published[report.node] and report.node not in self.unpublished:
            self.restored.discard(report.node)
        self.ledger.update_report(report, self.now, published=self.published_at[report.node, report.version])

    def _deliver_all(self) -> None:
        for event in self.events:
            self._deliver(*event)
        self.events.clear()

    def _deliver(self, kind: str, pod: Pod, started: float | None) -> None:
        if kind == "bound":
            self.ledger.add_pod(self.observed(pod, started), self.now)
        elif kind == "rejected":
            misprediction = self.ledger.reject_pod(pod.pending.uid, "TopologyAffinityError", "", self.now)
            self.mispredictions += misprediction is not None
        else:
            self.ledger.remove_pod(pod.pending.uid, self.now)


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
