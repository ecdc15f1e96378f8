"""The extender's cache: nodes without a report, or with a stale one."""

from __future__ import annotations

import pytest

from support.cache_harness import KIND, WHOLE, CacheHarness, pod
from support.ledger_kubelets import Kubelet
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.objects.api_objects import PublishedReport
from zonewise_scheduler.extender.tables import diagnosis
from zonewise_scheduler.nodes.node.node_info import NodeInfo


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
    """A report becomes stale when a pod has run for a while without being in it, and current when it covers the pod."""
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


def test_a_stale_report_becomes_current() -> None:
    """A pod rejected because of a stale report is requeued when the report covers the running pod."""
    harness = CacheHarness("a", fallback=FallbackPolicy(stale="allow-unaligned", stale_after=30))
    harness.observe(pod("p"), "a", started=harness.clock())
    harness.clock.advance(31)
    assert harness.select(pod("q")).failed_nodes == {"a": diagnosis.STALE_REPORT}
    harness.cluster.tick()
    assert harness.cluster.pods_to_requeue() == [], "the report is stale yet"
    harness.kubelets["a"].decide(pod("p"))
    harness.report("a")
    harness.cluster.tick()
    assert [pending.name for pending in harness.cluster.pods_to_requeue()] == ["q"]
    assert harness.select(pod("q")).node == "a"


@pytest.mark.parametrize(("policy", "node"), [("allow", "a"), ("allow-unaligned", ""), ("deny", "")])
def test_an_outdated_view(policy: str, node: str) -> None:
    """While the watches of nodes, reports or pods may be outdated, every report is stale; then pods are requeued."""
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
    """A report of a lower version replaces the current one, because the reflector delivers changes in order."""
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
    """A node without a report admits no pod, and another node may use its row."""
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
    """The release is known while the Node exists."""
    harness = CacheHarness("a")
    harness.cluster.update_node(None, NodeInfo("a", release=(1, 33)))
    assert harness.cluster.kubelet_release("a") == (1, 33)
    harness.cluster.update_node(NodeInfo("a"), None)
    assert harness.cluster.kubelet_release("a") == harness.cluster.kubelet_release("unknown") == (1, 36)
    assert harness.cluster.view.node_counts()["unreported"] == 0
