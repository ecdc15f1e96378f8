"""The state of the cluster after events, assumptions and bindings, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clock import Clock
from support.ledger_kubelets import SINGLE, node_kind, pod_shape
from zonewise_common.nrt import podfingerprint
from zonewise_common.nrt.names import ALL_PODS
from zonewise_scheduler.admission.node import Resource, idle_node
from zonewise_scheduler.admission.report.node_report import NodeReport, PodsFingerprint
from zonewise_scheduler.extender.objects.api_objects import ObservedPod, PublishedReport
from zonewise_scheduler.extender.objects.running_pods import VictimFields
from zonewise_scheduler.extender.objects.scheduling_spec import SchedulingSpec
from zonewise_scheduler.extender.state.cluster_state import NODE_FILTER, PREBIND_TIMEOUT, ClusterState
from zonewise_scheduler.extender.state.deleted_mirror_pods import MIRROR_LIFETIME
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts, PendingPod
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.node.node_info import NodeInfo, PodInfo
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.assumed.types import Misprediction

KIND = node_kind(SINGLE, gpus=0)
"""A kind of node with two zones of eight CPUs each."""
ALLOCATABLE = Resource(16_000, 1 << 50, 100, 0)
TIMEOUT = LedgerTimeouts().assume_timeout
FIVE, SHARED = pod_shape((5, 0)), pod_shape((0, 0))


def constraints(cpus: int) -> Constraints:
    return Constraints(Resource(1000 * cpus, 0, 1, 0))


class StateHarness:
    """A cluster state with nodes, its clock, and the calls of its callbacks."""

    def __init__(self, *nodes: str) -> None:
        self.clock = Clock()
        self.mispredictions: list[Misprediction] = []
        self.changes = 0
        self.state = ClusterState(self.clock, LedgerTimeouts(), self.mispredictions.append, self._count)
        for name in nodes:
            self.state.update_node(None, NodeInfo(name, allocatable=ALLOCATABLE))
            report = NodeReport(name, idle_node(KIND), (), ())
            self.state.update_report(None, PublishedReport(report, self.clock()))

    def _count(self) -> None:
        assert self.state.lock.acquire(blocking=False), "called back with the lock held"
        self.state.lock.release()
        self.changes += 1

    def observe(self, name: str, **fields: Any) -> ObservedPod:
        """Deliver a pod as observed at the API server; return it."""
        if not fields.get("node"):
            fields.setdefault("scheduling", SchedulingSpec(constraints=constraints(5)))
        elif "phase" not in fields:
            fields.setdefault("info", PodInfo(constraints(5).requests))
        pod = ObservedPod(f"uid-{name}", "lab", name, FIVE, **fields)
        self.state.update_pod(None, pod)
        return pod

    def report(self, node: str, *names: str) -> None:
        """Publish a report of a node with these pods, none of which holds anything."""
        text = podfingerprint.fingerprint(("lab", name) for name in names)
        report = NodeReport(node, idle_node(KIND), (PodsFingerprint(ALL_PODS, text),), ())
        self.state.update_report(None, PublishedReport(report, self.clock()))

    def requested(self, node: str) -> int:
        """Return the milli-CPUs requested on a node."""
        info = self.state.infos.get(node)
        return info.requested.milli_cpus if info is not None else 0


def pending(name: str) -> PendingPod:
    return PendingPod(f"uid-{name}", "lab", name, FIVE)


def test_a_placed_pod_is_observed() -> None:
    """An assumed pod counts in zones and in requests; after it is observed as bound, it counts only once."""
    harness = StateHarness("n")
    harness.observe("p")
    assert harness.state.assume(pending("p"), "n", constraints(5)).admitted
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (5000, "n")
    harness.observe("p", node="n")
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (5000, "n")
    assert "uid-p" not in harness.state.waiting
    harness.state.forget("uid-p")
    assert harness.state.node_of("uid-p") == "n", "it is bound"


def test_a_forgotten_pod_leaves_nothing() -> None:
    harness = StateHarness("n")
    harness.state.assume(pending("p"), "n", constraints(5))
    harness.state.forget("uid-p")
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (0, "")
    assert harness.state.predicted_verdict("uid-p") is None


def test_requests_of_the_node_as_a_whole() -> None:
    """The zones would admit the second pod, but the node as a whole has too few CPUs left."""
    harness = StateHarness("n")
    assert harness.state.assume(pending("p"), "n", constraints(12)).admitted
    verdict = harness.state.assume(pending("q"), "n", constraints(5))
    assert (verdict.admitted, verdict.reason) == (False, NODE_FILTER)
    assert harness.state.assume(pending("q"), "n", constraints(4)).admitted


def test_reserved_requests_expire() -> None:
    """The requests of a pod that no kubelet aligns count until it is bound, or until the assume timeout."""
    harness = StateHarness("n")
    assert harness.state.reserve("uid-p", constraints(10), "n") is None
    assert harness.state.reserve("uid-q", constraints(10), "n") is not None
    assert harness.state.reserve("uid-p", constraints(10), "n") is None, "once more"
    harness.clock.advance(LedgerTimeouts().assume_timeout)
    harness.state.tick()
    assert harness.requested("n") == 0
    assert harness.state.reserve("uid-q", constraints(10), "n") is None


def test_the_callback_for_a_misprediction() -> None:
    """The callback runs after the change, without the lock."""
    harness = StateHarness("n")
    harness.state.assume(pending("p"), "n")
    harness.observe("p", node="n")
    changes = harness.changes
    harness.observe("p", node="n", phase="Failed", reason="TopologyAffinityError")
    assert [each.name for each in harness.mispredictions] == ["p"]
    assert (harness.changes, harness.state.node_of("uid-p")) == (changes + 1, "")


def test_bindings_that_fail() -> None:
    """A deleted pod is dropped; any other pod waits for kube-scheduler. The requests of both are freed."""
    for gone in (True, False):
        harness = StateHarness("n")
        harness.observe("p")
        harness.state.assume(pending("p"), "n", constraints(5))
        harness.state.bindings.requested["uid-p"] = "n"
        harness.state.cancel_binding("uid-p", gone=gone)
        assert ("uid-p" in harness.state.waiting) is not gone
        assert (harness.requested("n"), harness.state.bindings.requested) == (0, {})


def test_the_end_of_a_binding_after_its_event() -> None:
    """If the event of the bound pod comes first, the response to the binding changes nothing."""
    harness = StateHarness("n")
    harness.observe("p")
    harness.state.assume(pending("p"), "n", constraints(5))
    harness.state.bindings.requested["uid-p"] = "n"
    harness.observe("p", node="n")
    changes = harness.changes
    harness.state.cancel_binding("uid-p", gone=False)
    harness.state.confirm_binding(pending("p"), "n")
    assert (harness.state.node_of("uid-p"), harness.requested("n"), harness.changes) == ("n", 5000, changes)


def test_nodes_and_reports_are_removed() -> None:
    """Each change is returned once; a node without a report has no state."""
    harness = StateHarness("n", "m")
    changes = harness.state.take_changes()
    assert ([name for name, _ in changes.states], changes.reported) == (["m", "n"], ["m", "n"])
    assert harness.state.take_changes() == ([], [], [])
    harness.state.update_report(PublishedReport(NodeReport("n", None, (), ()), None), None)
    harness.state.update_node(NodeInfo("m"), None)
    states, reported, infos = harness.state.take_changes()
    assert (states, reported, infos) == ([("n", None)], [], [("m", None)])


STEPS = st.tuples(
    st.sampled_from(["create", "assume", "bind", "end", "delete", "forget", "reserve"]), st.sampled_from("abc")
)


@given(st.lists(STEPS, max_size=30))
def test_deleted_pods_leave_no_traces(steps: list[tuple[str, str]]) -> None:
    """After any history, once all pods are deleted, the node is idle and the state contains no pod."""
    harness = StateHarness("n")
    state = harness.state
    for step, name in steps:
        uid = f"uid-{name}"
        if step == "create":
            harness.observe(name)
        elif step == "assume":
            state.assume(pending(name), "n", constraints(5))
        elif step == "bind":
            harness.observe(name, node="n")
        elif step == "end":
            harness.observe(name, node="n", phase="Succeeded")
        elif step == "forget":
            state.forget(uid)
        elif step == "reserve":
            state.reserve(uid, constraints(5), "n")
        else:
            state.update_pod(ObservedPod(uid, "lab", name, FIVE), None)
        assert harness.requested("n") <= 15_000
    for name in "abc":
        state.update_pod(ObservedPod(f"uid-{name}", "lab", name, FIVE), None)
    harness.clock.advance(600)
    state.tick()
    info = state.infos.get("n")
    assert info is not None
    assert (info.requested, len(state.waiting), state.bindings.requested) == (NO_RESOURCES, 0, {})
    assert state.counters().assumed == 0


STATIC = VictimFields(static=True)


def with_static_pod() -> tuple[StateHarness, ObservedPod]:
    """Return a state whose report covers a static pod, and the mirror pod, which was deleted."""
    harness = StateHarness("n")
    mirror = harness.observe("p", node="n", victim=STATIC, started=harness.clock())
    harness.report("n", "p")
    harness.state.update_pod(mirror, None)
    return harness, mirror


def test_a_deleted_mirror_pod() -> None:
    """Its static pod still runs, so it keeps its CPUs, until the kubelet would have created a mirror pod again."""
    harness, _ = with_static_pod()
    harness.clock.advance(MIRROR_LIFETIME - 1)
    harness.state.tick()
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (5000, "n")
    harness.clock.advance(1)
    harness.state.tick()
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (0, "")


def test_a_mirror_pod_that_is_created_again() -> None:
    """The report covers its static pod, as before."""
    harness, _ = with_static_pod()
    harness.observe("p", node="n", victim=STATIC)
    harness.clock.advance(MIRROR_LIFETIME)
    harness.state.tick()
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (5000, "n")
    assert harness.state.ledger.assumed_pods("n") == ()


def test_a_static_pod_that_ends() -> None:
    """A report without it ends it at once; so does the mirror pod of its changed file. The report may come first."""
    harness, _ = with_static_pod()
    harness.report("n")
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (0, "")
    harness, mirror = with_static_pod()
    harness.state.update_pod(None, mirror._replace(uid="uid-changed"))
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (5000, "")
    harness = StateHarness("n")
    mirror = harness.observe("p", node="n", victim=STATIC, started=harness.clock())
    harness.report("n", "p")
    harness.report("n")
    assert harness.state.node_of("uid-p") == "n", "a kubelet that has just started lists too few pods"
    harness.state.update_pod(mirror, None)
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (0, "")


LACKING = Constraints(Resource(5_000, 0, 1, 0, (("example.com/gpu", 1),)))
"""The constraints of a pod with a resource that no node has in its allocatable."""


@pytest.mark.parametrize(
    ("demand", "lifetime"),
    [
        (constraints(5)._replace(scheduler_only=("volumes",)), PREBIND_TIMEOUT),
        (constraints(5)._replace(scheduler_only=("resource claims",)), PREBIND_TIMEOUT),
        (constraints(5)._replace(scheduler_only=("topology spread",)), TIMEOUT),
        (constraints(5), TIMEOUT),
        (LACKING, PREBIND_TIMEOUT),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_pod_whose_binding_takes_long(demand: Constraints, lifetime: float, *, is_late: bool) -> None:
    """kube-scheduler binds it only once its volumes and devices are ready.

    Its first event may come after the filter call. A DeviceClass may provide a resource that its node lacks.
    """
    harness = StateHarness("n")
    spec = SchedulingSpec(constraints=demand)
    if not is_late:
        harness.observe("p", scheduling=spec)
    assert harness.state.assume(pending("p"), "n", demand).admitted
    if is_late:
        harness.observe("p", scheduling=spec)
    harness.clock.advance(lifetime - 1)
    harness.state.tick()
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (5000, "n")
    harness.clock.advance(1)
    harness.state.tick()
    assert (harness.requested("n"), harness.state.node_of("uid-p")) == (0, "")
