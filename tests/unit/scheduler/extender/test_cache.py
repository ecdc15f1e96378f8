"""The extender's cache: a pod has one node at a time, in any history."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cache_harness import FIVE_CPUS, HALF, WHOLE, CacheHarness, pod
from support.ledger_kubelets import SHARED, pod_shape
from zonewise_scheduler.extender.failed_nodes import FailedNodes
from zonewise_scheduler.extender.placing.placer import ScheduleResult
from zonewise_scheduler.extender.tables import diagnosis
from zonewise_scheduler.nodes.assumed.types import NODE_BACKOFF, LedgerTimeouts, PendingPod

# --- selection of nodes


def test_three_pods_before_any_is_bound() -> None:
    """Each pod needs most of a zone: the first two get a zone each, and the third gets none."""
    harness = CacheHarness("n")
    results = [harness.select(pod(name, FIVE_CPUS)) for name in "abc"]
    assert [result.node for result in results] == ["n", "n", ""]
    assert results[2].failed_nodes == {"n": "node(s) would reject it: needs 5 CPUs in one zone"}


def test_only_candidates_are_selected() -> None:
    """The best node is not selected unless it is a candidate; an unknown candidate has a reason."""
    harness = CacheHarness("a", "b", "c")
    assert harness.select(pod("p"), "b").node == "b"
    result = harness.select(pod("q"), "d")
    assert result == ScheduleResult("", None, FailedNodes({"d": diagnosis.NO_REPORT}))


def test_a_pod_filtered_again_gets_a_new_decision() -> None:
    """The node of the earlier decision is free again."""
    harness = CacheHarness("a", "b")
    pending = pod("p", WHOLE)
    assert harness.select(pending, "a").node == "a"
    assert harness.select(pending, "b").node == "b"
    assert harness.assumed_pods() == {"a": [], "b": ["p"]}
    assert harness.select(pending, "z").node == ""
    assert harness.assumed_pods() == {"a": [], "b": []}
    assert harness.cluster.predicted_verdict(pending.uid) is None


def test_fuller_nodes_are_preferred() -> None:
    """Without pending pods, pods are packed: further pods go to the node of the first."""
    harness = CacheHarness("a", "b", "c")
    assert {harness.select(pod(name)).node for name in "pqrs"} == {"a"}


def test_scores() -> None:
    """Scores are between 0 and 100, in the order of the names; a node without a report has the score 0."""
    harness = CacheHarness("a", "b")
    harness.select(pod("p"), "a")
    scores = harness.cluster.scores(HALF, ["b", "unknown", "a"])
    assert scores[1] == 0
    assert 0 <= scores[0] < scores[2] <= 100


# --- what happens to assumed pods


def test_a_pod_bound_elsewhere_is_assumed_there() -> None:
    """A pod bound to another node is assumed there and forgotten on the selected node."""
    harness = CacheHarness("a", "b")
    harness.select(pod("p"), "a")
    harness.observe(pod("p"), "b")
    assert harness.assumed_pods() == {"a": [], "b": ["p"]}


def test_a_late_call_for_a_bound_pod_returns_its_node() -> None:
    """kube-scheduler may filter a pod again after its binding."""
    harness = CacheHarness("a", "b")
    harness.observe(pod("p", WHOLE), "a")
    assert harness.select(pod("p", WHOLE)).node == "a"
    assert harness.select(pod("p", WHOLE), "b").failed_nodes == {"b": "the pod is being bound to a"}
    assert harness.assumed_pods() == {"a": ["p"], "b": []}


@pytest.mark.parametrize("ended", [False, True], ids=["bound", "ended"])
def test_a_late_call_for_a_pod_with_a_node_blocks_no_node(*, ended: bool) -> None:
    harness = CacheHarness("a", "b")
    harness.observe(pod("p", WHOLE), "a")
    harness.kubelets["a"].decide(pod("p", WHOLE))
    harness.report("a")
    if ended:
        harness.delete(pod("p", WHOLE))
    harness.select(pod("p", WHOLE))
    assert {harness.select(pod(name, WHOLE)).node for name in "qrs"} == {"a", "b"}


def test_a_late_call_for_a_deleted_pod_holds_nothing() -> None:
    """kube-scheduler learns of the deletion later, and does not report that it gave up on the pod."""
    harness = CacheHarness("a")
    harness.observe(pod("p", WHOLE))
    harness.delete(pod("p", WHOLE))
    assert harness.select(pod("p", WHOLE)).failed_nodes == {"a": "the pod was deleted"}
    assert [harness.select(pod(name, WHOLE)).node for name in "qr"] == ["a", "a"]
    assert harness.select(pod("s", WHOLE)).node == ""
    harness.delete(pod("q", WHOLE))
    assert harness.select(pod("r", WHOLE)).node == "a"
    harness.observe(pod("p", WHOLE))  # the deletion belongs to an older history
    assert harness.select(pod("p", WHOLE)).node == "a"


def test_a_deleted_pod_is_forgotten() -> None:
    """A pod deleted before its binding uses nothing."""
    harness = CacheHarness("a")
    harness.select(pod("p"))
    harness.delete(pod("p"))
    assert harness.assumed_pods() == {"a": []}


def test_an_assumed_pod_expires() -> None:
    harness = CacheHarness("a", timeouts=LedgerTimeouts(assume_timeout=5))
    harness.select(pod("p"))
    harness.clock.advance(4)
    harness.cluster.tick()
    assert harness.assumed_pods() == {"a": ["p"]}
    harness.clock.advance(2)
    harness.cluster.tick()
    assert harness.assumed_pods() == {"a": []}


def test_a_rejected_assumed_pod_is_a_misprediction() -> None:
    """If a kubelet rejects an assumed pod, this is a misprediction; the node is then in backoff for such pods."""
    harness = CacheHarness("a", "b")
    harness.select(pod("p"), "a")
    harness.observe(pod("p"), "a")
    harness.observe(pod("p"), "a", phase="Failed", reason="TopologyAffinityError", message="no")
    assert [
        (misprediction.node, misprediction.name, misprediction.reason) for misprediction in harness.mispredictions
    ] == [("a", "p", "TopologyAffinityError")]
    assert harness.select(pod("q"), "a").failed_nodes == {"a": diagnosis.LEDGER_REASONS[NODE_BACKOFF]}
    assert harness.select(pod("q"), "a", "b").node == "b"


def test_a_rejected_pod_of_another_scheduler_is_no_misprediction() -> None:
    """There are no predictions for pods of other schedulers."""
    harness = CacheHarness("a")
    harness.observe(pod("p"), "a")
    harness.observe(pod("p"), "a", phase="Failed", reason="TopologyAffinityError")
    assert harness.mispredictions == []
    assert harness.select(pod("q")).node == "a"


def test_pods_of_other_schedulers_count() -> None:
    """A pod bound by another scheduler uses zones too, unless no kubelet aligns it."""
    harness = CacheHarness("a")
    harness.observe(pod("p", WHOLE), "a")
    harness.observe(pod("shared", SHARED), "a")
    harness.observe(pod("q", WHOLE), "a")
    assert harness.select(pod("r")).node == ""
    harness.observe(pod("p", WHOLE), "a", phase="Succeeded")
    assert harness.select(pod("r")).node == "a"


# --- random histories

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

    A pod is without a node only if no candidate admits it or it was deleted. A bound pod keeps its node in late calls.
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
    """Return the nodes that admit a pod in addition to their assumed pods, according to the ledger alone."""
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


def test_a_rejected_pod_is_counted_once() -> None:
    """A pod that its kubelet has rejected may change again, for example when the finalizer of its Job is removed."""
    harness = CacheHarness("a")
    harness.select(pod("p"))
    harness.observe(pod("p"), "a")
    for _ in range(2):
        harness.observe(pod("p"), "a", phase="Failed", reason="TopologyAffinityError")
    counters = harness.cluster.view.counters()
    assert counters.rejected == counters.mispredicted == (("TopologyAffinityError", 1),)
