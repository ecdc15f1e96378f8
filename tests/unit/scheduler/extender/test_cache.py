"""The extender's cache: one node for a pod at a time, fallback policies, and pods that are requeued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clock import Clock
from support.ledger_kubelets import SHARED, SINGLE, Kubelet, node_kind, pod_shape
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.report.node_report import NodeReport
from zonewise_scheduler.extender.cache import ExtenderCache
from zonewise_scheduler.extender.failed_nodes import FailedNodes
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.objects.api_objects import ObservedPod, PublishedReport
from zonewise_scheduler.extender.placing.placer import ScheduleResult
from zonewise_scheduler.extender.tables import diagnosis
from zonewise_scheduler.extender.types import CandidateNodes, ExtenderArgs
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, NODE_BACKOFF, LedgerTimeouts, PendingPod
from zonewise_scheduler.nodes.node.node_info import NodeInfo

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import Misprediction

KIND = node_kind(SINGLE, gpus=0)
"""Two zones of eight CPUs."""
FALLBACK, TIMEOUTS = FallbackPolicy(), LedgerTimeouts()
HALF, FIVE_CPUS, WHOLE = pod_shape((4, 0)), pod_shape((5, 0)), pod_shape((8, 0))


def candidates(*names: str) -> CandidateNodes:
    return CandidateNodes(ExtenderArgs({}, node_names=msgspec.Raw(msgspec.json.encode(names))))


def pod(name: str, shape: PodShape = HALF) -> PendingPod:
    return PendingPod(f"uid-{name}", "lab", name, shape)


class CacheHarness:
    """A cluster of simulated kubelets, and the cache that observes it."""

    def __init__(self, *names: str, fallback: FallbackPolicy = FALLBACK, timeouts: LedgerTimeouts = TIMEOUTS) -> None:
        self.clock = Clock()
        self.mispredictions: list[Misprediction] = []
        self.cluster = ExtenderCache(self.clock, timeouts, fallback, self.mispredictions.append)
        self.kubelets: dict[str, Kubelet] = {}
        self.bound: set[str] = set()
        self.deleted: set[str] = set()
        self.bound_elsewhere = False
        """Whether another scheduler has bound a pod."""
        for name in names:
            self.kubelets[name] = Kubelet(name, idle_node(KIND))
            self.cluster.update_node(None, NodeInfo(name))
            self.report(name)

    def report(self, name: str) -> None:
        self.cluster.update_report(None, PublishedReport(self.kubelets[name].report(), self.clock()))

    def remove_report(self, name: str) -> None:
        self.cluster.update_report(PublishedReport(NodeReport(name, None, (), ()), None), None)

    def select(self, pending: PendingPod, *names: str) -> ScheduleResult:
        return self.cluster.select_and_assume(pending, candidates(*(names or self.kubelets)))

    def observe(self, pending: PendingPod, node: str = "", **more: Any) -> None:
        self.deleted.discard(pending.uid)
        self.cluster.update_pod(None, ObservedPod(*pending, node=node, **more))

    def delete(self, pending: PendingPod) -> None:
        self.deleted.add(pending.uid)
        self.cluster.update_pod(ObservedPod(*pending), None)

    def bind(self, pending: PendingPod, node: str) -> bool:
        """Bind a pod, and let its kubelet admit or reject it."""
        self.bound.add(pending.uid)
        self.observe(pending, node)
        verdict = self.kubelets[node].decide(pending)
        if not verdict.admitted:
            self.observe(pending, node, phase="Failed", reason=verdict.reason, message=verdict.message)
        return verdict.admitted

    def assumed_pods(self) -> dict[str, list[str]]:
        """Return the names of the assumed pods by node."""
        nodes: Any = self.cluster.view.dump()["nodes"]
        return {name: [pending.removeprefix("lab/") for pending in node["inFlight"]] for name, node in nodes.items()}


# --- choosing


def test_three_pods_before_any_is_bound() -> None:
    """Each of three pods that need most of a zone gets a zone that the earlier ones leave; the third gets none."""
    harness = CacheHarness("n")
    results = [harness.select(pod(name, FIVE_CPUS)) for name in "abc"]
    assert [result.node for result in results] == ["n", "n", ""]
    assert results[2].failed_nodes == {"n": "node(s) would reject it: needs 5 CPUs in one zone"}


def test_only_candidates_are_selected() -> None:
    """The best node is not selected if it is no candidate; an unknown candidate has its reason."""
    harness = CacheHarness("a", "b", "c")
    assert harness.select(pod("p"), "b").node == "b"
    result = harness.select(pod("q"), "d")
    assert result == ScheduleResult("", None, FailedNodes({"d": diagnosis.NO_REPORT}))


def test_a_pod_filtered_again_is_decided_again() -> None:
    """A pod that is filtered again is decided again, and its earlier node is free."""
    harness = CacheHarness("a", "b")
    pending = pod("p", WHOLE)
    assert harness.select(pending, "a").node == "a"
    assert harness.select(pending, "b").node == "b"
    assert harness.assumed_pods() == {"a": [], "b": ["p"]}
    assert harness.select(pending, "z").node == ""
    assert harness.assumed_pods() == {"a": [], "b": []}
    assert harness.cluster.predicted_verdict(pending.uid) is None


def test_fuller_nodes_are_preferred() -> None:
    """Without pending pods, pods are packed: the second goes to the node of the first."""
    harness = CacheHarness("a", "b", "c")
    assert {harness.select(pod(name)).node for name in "pqrs"} == {"a"}


def test_scores() -> None:
    """Scores are 0 to 100 in the order of the names; 0 for a node without a report."""
    harness = CacheHarness("a", "b")
    harness.select(pod("p"), "a")
    scores = harness.cluster.scores(HALF, ["b", "unknown", "a"])
    assert scores[1] == 0
    assert 0 <= scores[0] < scores[2] <= 100


# --- what becomes of assumed pods


def test_a_pod_bound_elsewhere_is_assumed_there() -> None:
    """A pod bound to another node is assumed there, and forgotten on the selected node."""
    harness = CacheHarness("a", "b")
    harness.select(pod("p"), "a")
    harness.observe(pod("p"), "b")
    assert harness.assumed_pods() == {"a": [], "b": ["p"]}


def test_a_late_call_for_a_bound_pod_returns_its_node() -> None:
    """kube-scheduler may filter a pod once more after its binding."""
    harness = CacheHarness("a", "b")
    harness.observe(pod("p", WHOLE), "a")
    assert harness.select(pod("p", WHOLE)).node == "a"
    assert harness.select(pod("p", WHOLE), "b").failed_nodes == {"b": "the pod is being bound to a"}
    assert harness.assumed_pods() == {"a": ["p"], "b": []}


@pytest.mark.parametrize("ended", [False, True], ids=["bound", "ended"])
def test_a_late_call_for_a_pod_that_has_a_node_keeps_no_node_from_others(*, ended: bool) -> None:
    harness = CacheHarness("a", "b")
    harness.observe(pod("p", WHOLE), "a")
    harness.kubelets["a"].decide(pod("p", WHOLE))
    harness.report("a")
    if ended:
        harness.delete(pod("p", WHOLE))
    harness.select(pod("p", WHOLE))
    assert {harness.select(pod(name, WHOLE)).node for name in "qrs"} == {"a", "b"}


def test_a_late_call_for_a_deleted_pod_holds_nothing() -> None:
    """kube-scheduler learns later that a pod was deleted, and does not say that it gave the pod up."""
    harness = CacheHarness("a")
    harness.observe(pod("p", WHOLE))
    harness.delete(pod("p", WHOLE))
    assert harness.select(pod("p", WHOLE)).failed_nodes == {"a": "the pod was deleted"}
    assert [harness.select(pod(name, WHOLE)).node for name in "qr"] == ["a", "a"]
    assert harness.select(pod("s", WHOLE)).node == ""
    harness.delete(pod("q", WHOLE))
    assert harness.select(pod("r", WHOLE)).node == "a"
    harness.observe(pod("p", WHOLE))  # the deletion was that of an older history
    assert harness.select(pod("p", WHOLE)).node == "a"


def test_a_deleted_pod_is_forgotten() -> None:
    """A pod that is deleted before it is bound uses nothing."""
    harness = CacheHarness("a")
    harness.select(pod("p"))
    harness.delete(pod("p"))
    assert harness.assumed_pods() == {"a": []}


def test_an_assumed_pod_expires() -> None:
    """An assumed pod that is never bound expires."""
    harness = CacheHarness("a", timeouts=LedgerTimeouts(assume_timeout=5))
    harness.select(pod("p"))
    harness.clock.advance(4)
    harness.cluster.tick()
    assert harness.assumed_pods() == {"a": ["p"]}
    harness.clock.advance(2)
    harness.cluster.tick()
    assert harness.assumed_pods() == {"a": []}


def test_a_rejected_assumed_pod_is_a_misprediction() -> None:
    """A kubelet's rejection of an assumed pod is a misprediction; the node is then in backoff for such a pod."""
    harness = CacheHarness("a", "b")
    harness.select(pod("p"), "a")
    harness.observe(pod("p"), "a")
    harness.observe(pod("p"), "a", phase="Failed", reason="TopologyAffinityError", message="no")
    assert [
        (misprediction.node, misprediction.name, misprediction.reason) for misprediction in harness.mispredictions
    ] == [("a", "p", "TopologyAffinityError")]
    assert harness.select(pod("q"), "a").failed_nodes == {"a": diagnosis.LEDGER_REASONS[NODE_BACKOFF]}
    assert harness.select(pod("q"), "a", "b").node == "b"


def test_a_rejected_pod_of_another_scheduler_is_none() -> None:
    """The pods of other schedulers have no prediction."""
    harness = CacheHarness("a")
    harness.observe(pod("p"), "a")
    harness.observe(pod("p"), "a", phase="Failed", reason="TopologyAffinityError")
    assert harness.mispredictions == []
    assert harness.select(pod("q")).node == "a"


def test_pods_of_other_schedulers_count() -> None:
    """A pod bound by another scheduler counts too; one that no kubelet aligns does not."""
    harness = CacheHarness("a")
    harness.observe(pod("p", WHOLE), "a")
    harness.observe(pod("shared", SHARED), "a")
    harness.observe(pod("q", WHOLE), "a")
    assert harness.select(pod("r")).node == ""
    harness.observe(pod("p", WHOLE), "a", phase="Succeeded")
    assert harness.select(pod("r")).node == "a"


# --- what is not known


@pytest.mark.parametrize(("policy", "node"), [("allow", "new"), ("allow-unaligned", ""), ("deny", "")])
def test_unreported_nodes(policy: str, node: str) -> None:
    """A pod that a kubelet may align goes to a node without a report only if the policy allows it."""
    harness = CacheHarness("a", fallback=FallbackPolicy(unreported=policy))
    result = harness.select(pod("p"), "new")
    assert (result.node, result.verdict) == (node, None)
    assert harness.select(pod("q"), "new", "a").node == "a", "where something is known is better"
    names, failed = harness.cluster.allowed_nodes(["a", "new"])
    assert names == (["a"] if policy == "deny" else ["a", "new"])
    assert failed == ({"new": diagnosis.NO_REPORT} if policy == "deny" else {})
    assert harness.cluster.allows_every_node == (policy != "deny")


@pytest.mark.parametrize(("policy", "node"), [("allow", "a"), ("allow-unaligned", ""), ("deny", "")])
def test_stale_reports(policy: str, node: str) -> None:
    """A report is stale once a pod has run for long without being in it; a report that covers the pod ends that."""
    harness = CacheHarness("a", fallback=FallbackPolicy(stale=policy, stale_after=30))
    harness.observe(pod("p"), "a", started=harness.clock())
    harness.clock.advance(31)
    result = harness.select(pod("q"))
    assert result.node == node
    assert result.failed_nodes == ({} if node else {"a": diagnosis.STALE_REPORT})
    assert harness.cluster.allowed_nodes(["a"])[0] == ([] if policy == "deny" else ["a"])
    assert harness.cluster.view.node_counts() == {"reported": 0, "stale": 1, "unreported": 0}
    harness.kubelets["a"].decide(pod("p"))
    harness.report("a")
    assert harness.select(pod("r")).node == "a"


@pytest.mark.parametrize(("policy", "node"), [("allow", "a"), ("allow-unaligned", ""), ("deny", "")])
def test_an_outdated_view(policy: str, node: str) -> None:
    """Every report is stale while nodes, reports or pods are not known to be current; then pods are requeued."""
    harness = CacheHarness("a", fallback=FallbackPolicy(stale=policy, watch_stale_after=30))
    harness.cluster.set_view_age(30.0)
    assert harness.select(pod("p")).node == "a"
    harness.cluster.set_view_age(30.1)
    result = harness.select(pod("q"))
    assert (result.node, result.failed_nodes) == (node, {} if node else {"a": diagnosis.STALE_REPORT})
    assert harness.cluster.allowed_nodes(["a"])[0] == ([] if policy == "deny" else ["a"])
    assert harness.cluster.view.node_counts() == {"reported": 0, "stale": 1, "unreported": 0}
    assert harness.cluster.pods_to_requeue() == []
    harness.cluster.set_view_age(0.0)
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ([] if node else ["q"])
    assert harness.cluster.view.node_counts() == {"reported": 1, "stale": 0, "unreported": 0}


def test_a_restored_report() -> None:
    """A report with a lower version replaces the current one: the reflector reports changes in order."""
    harness = CacheHarness("a")
    before = PublishedReport(harness.kubelets["a"].report(), None)
    harness.bind(pod("p", WHOLE), "a")
    harness.bind(pod("q", WHOLE), "a")
    after = PublishedReport(harness.kubelets["a"].report(), None)
    harness.cluster.update_report(before, after)
    assert harness.select(pod("r")).node == ""
    harness.delete(pod("p", WHOLE))
    harness.delete(pod("q", WHOLE))
    harness.cluster.update_report(after, before)
    assert harness.select(pod("r")).node == "a"


def test_a_node_loses_its_report() -> None:
    """Without its report a node admits no pod, and another node may use its row."""
    harness = CacheHarness("a", "b")
    harness.remove_report("a")
    assert harness.select(pod("p"), "a").node == ""
    assert harness.cluster.view.node_counts() == {"reported": 1, "stale": 0, "unreported": 1}
    harness.kubelets["c"] = Kubelet("c", idle_node(KIND))
    harness.report("c")
    assert harness.select(pod("p"), "a").node == ""
    assert harness.select(pod("p"), "c").node == "c"
    harness.report("a")
    assert harness.select(pod("q", WHOLE), "a").node == "a"


def test_the_release_of_a_kubelet() -> None:
    """The release is that of the node, while the node exists."""
    harness = CacheHarness("a")
    harness.cluster.update_node(None, NodeInfo("a", release=(1, 33)))
    assert harness.cluster.kubelet_release("a") == (1, 33)
    harness.cluster.update_node(NodeInfo("a"), None)
    assert harness.cluster.kubelet_release("a") == harness.cluster.kubelet_release("unknown") == (1, 36)
    assert harness.cluster.view.node_counts()["unreported"] == 0


# --- waking


def test_pods_are_requeued_for_free_zones() -> None:
    """An unschedulable pod is requeued once a report shows free zones: once, not again at once."""
    harness = CacheHarness("a")
    harness.bind(pod("p", WHOLE), "a")
    harness.bind(pod("q", WHOLE), "a")
    harness.report("a")
    assert harness.select(pod("r")).node == ""
    assert harness.cluster.pods_to_requeue() == []
    harness.kubelets["a"].end_pod(pod("p").uid)
    harness.observe(pod("p", WHOLE), "a", phase="Succeeded")
    assert harness.cluster.pods_to_requeue() == [], "the report has it yet"
    harness.report("a")
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ["r"]
    assert harness.cluster.pods_to_requeue() == []
    assert harness.select(pod("r")).node == "a"
    harness.clock.advance(100)
    assert harness.cluster.pods_to_requeue() == []


@pytest.mark.parametrize("event", ["bound", "deleted", "forgotten"])
def test_bound_and_deleted_pods_are_not_requeued(event: str) -> None:
    """A pod that was bound elsewhere or deleted is not requeued."""
    harness = CacheHarness("a")
    harness.observe(pod("p", WHOLE), "a")
    harness.observe(pod("q", WHOLE), "a")
    harness.select(pod("r"))
    if event == "bound":
        harness.observe(pod("r"), "elsewhere")
    elif event == "deleted":
        harness.delete(pod("r"))
    else:
        harness.cluster.drop_pod(pod("r").uid)
    harness.delete(pod("p", WHOLE))
    harness.clock.advance(100)
    harness.cluster.tick()
    assert harness.cluster.pods_to_requeue() == []


def blocked_harness() -> CacheHarness:
    """Return a node with three assumed pods, which admits a fourth, but not in every order."""
    harness = CacheHarness("a")
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        assert harness.select(pod(name, pod_shape((cpus, 0)))).node == "a"
    assert harness.select(pod("s", pod_shape((3, 0)))).failed_nodes == {
        "a": diagnosis.LEDGER_REASONS[BLOCKED_BY_ASSUMED]
    }
    return harness


def test_assumed_pods_arrive() -> None:
    """Once the pods have arrived as predicted, the state is equal, and yet the fourth is requeued and assumed."""
    harness = blocked_harness()
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        assert harness.bind(pod(name, pod_shape((cpus, 0))), "a")
    assert harness.cluster.pods_to_requeue() == []
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "", "nothing was reported yet"
    harness.report("a")
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ["s"]
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "a"


def test_assumed_pods_are_deleted() -> None:
    """A pod that assumed pods block is assumed as soon as they are deleted."""
    harness = blocked_harness()
    harness.delete(pod("r"))
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "a"


def test_assumed_pods_count_as_reported_after_the_lag() -> None:
    """Pods count as covered by a report without fingerprints after a while; then the blocked pod is requeued."""
    harness = CacheHarness("a", timeouts=LedgerTimeouts(report_lag=10))
    harness.kubelets["a"].methods = ()
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        harness.select(pending := pod(name, pod_shape((cpus, 0))))
        harness.bind(pending, "a")
        harness.observe(pending, "a", started=harness.clock())
    harness.select(pod("s", pod_shape((3, 0))))
    harness.clock.advance(1)
    harness.report("a")
    harness.cluster.pods_to_requeue()
    harness.clock.advance(60)
    harness.cluster.tick()
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ["s"]
    assert harness.select(pod("s", pod_shape((3, 0)))).node == "a"


def test_a_node_in_backoff_is_tried_again() -> None:
    """A pod whose only node is in backoff is requeued when the backoff ends."""
    harness = CacheHarness("a", timeouts=LedgerTimeouts(initial_backoff=10))
    harness.select(pod("p"), "a")
    harness.observe(pod("p"), "a")
    harness.observe(pod("p"), "a", phase="Failed", reason="TopologyAffinityError")
    assert harness.select(pod("q"), "a").node == ""
    requeued: list[int] = []
    for second in range(1, 40):
        harness.clock.advance(1)
        harness.cluster.tick()
        if harness.cluster.pods_to_requeue():
            requeued.append(second)
            if harness.select(pod("q")).node:
                break
    assert len(requeued) < 8
    assert 10 <= requeued[-1] < 30


# --- whatever happens

NODES = ("a", "b", "c")
PODS = [pod(f"p{number}", pod_shape((cpus, 0))) for number, cpus in enumerate((1, 3, 4, 5, 5, 8))]
STEPS = st.one_of(
    st.tuples(st.just("select"), st.sampled_from(PODS), st.sets(st.sampled_from((*NODES, "unknown")), min_size=1)),
    st.tuples(st.just("bind"), st.sampled_from(PODS), st.just(set[str]())),
    st.tuples(st.just("elsewhere"), st.sampled_from(PODS), st.sets(st.sampled_from(NODES), min_size=1, max_size=1)),
    st.tuples(st.sampled_from(["end", "delete", "tick", "wake"]), st.sampled_from(PODS), st.just(set[str]())),
    st.tuples(st.sampled_from(["report", "remove_report"]), st.sampled_from(PODS), st.sets(st.sampled_from(NODES))),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=40))
def test_any_history(steps: list[tuple[str, PendingPod, set[str]]]) -> None:
    """In any history a pod is assumed on one node, which is a candidate and admits it.

    A pod stays without a node only while no candidate admits it, or once it was deleted. A pod that is bound keeps its
    node in late calls.
    """
    harness = CacheHarness(*NODES)
    selected: dict[str, str] = {}
    for step, pending, names in steps:
        _follow(harness, selected, step, pending, names)
        assumed = [name for uids in harness.assumed_pods().values() for name in uids]
        assert len(assumed) == len(set(assumed)), "two nodes for pending pod"
        harness.clock.advance(0.1)
    assert harness.mispredictions == [] or harness.bound_elsewhere


def _admitting(harness: CacheHarness, pending: PendingPod, names: set[str]) -> list[str]:
    """Return the nodes that admit a pod after their assumed pods, by the ledger alone."""
    ledger = harness.cluster.state.ledger
    states = {name: ledger.assumed_state(name) for name in sorted(names)}
    return [name for name, state in states.items() if state and state.assume(pending.shape, ledger.admit)[0].admitted]


def _select(harness: CacheHarness, selected: dict[str, str], pending: PendingPod, names: set[str]) -> None:
    result = harness.select(pending, *sorted(names))
    assert result.node in {*names, ""}
    assert set(result.failed_nodes) == (set() if result.node else names)
    if pending.uid not in harness.bound:
        selected[pending.uid] = result.node
        is_gone = pending.uid in harness.deleted
        assert result.node or is_gone or harness.bound_elsewhere or not _admitting(harness, pending, names)
        return
    nodes = [host.node for host in harness.kubelets.values() if pending.uid in host.pods]
    assert not nodes or result.node in {*nodes, ""}


def _follow(harness: CacheHarness, selected: dict[str, str], step: str, pending: PendingPod, names: set[str]) -> None:
    kubelet = next((host for host in harness.kubelets.values() if pending.uid in host.pods), None)
    if step == "select":
        _select(harness, selected, pending, names)
    elif step == "bind" and pending.uid not in harness.bound and selected.get(pending.uid):
        assert harness.bind(pending, selected[pending.uid]) or harness.bound_elsewhere
    elif step == "elsewhere" and pending.uid not in harness.bound:
        harness.bound_elsewhere = True
        harness.bind(pending, *names)
    elif step == "end" and kubelet is not None:
        kubelet.end_pod(pending.uid)
        harness.observe(pending, kubelet.node, phase="Succeeded")
    elif step == "delete" and pending.uid not in harness.bound:
        harness.delete(pending)
        selected.pop(pending.uid, None)
    elif step == "tick":
        harness.cluster.tick()
    elif step == "wake":
        assert all(host.uid not in harness.bound for host in harness.cluster.pods_to_requeue())
    elif step in ("report", "remove_report"):
        for name in sorted(names):
            getattr(harness, step)(name)
