"""Whether List includes all pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import NodeHistory, node_histories
from zonewise.kubelet.types import PodResources
from zonewise.usage.pod_matching import incomplete_list_reason


def active_uids(history: NodeHistory) -> frozenset[str]:
    return frozenset(record.uid for record in history.records if record.alive)


@given(node_histories(), st.booleans())
def test_a_complete_list(history: NodeHistory, with_deleted: bool) -> None:
    """If the active pods are known, a List of all pods is complete, whatever entries of deleted pods the files have."""
    records = tuple(record for record in history.records if with_deleted or record.alive)
    report = history._replace(records=records).report()
    assert incomplete_list_reason(report._replace(active=active_uids(history))) is None


@given(node_histories(inits=False))
def test_a_complete_list_without_cgroups(history: NodeHistory) -> None:
    """Without known cgroups, it is complete unless entries in the files could belong to missing pods."""
    history = history._replace(records=tuple(record for record in history.records if record.alive))
    assert incomplete_list_reason(history.report()) is None


@given(node_histories(), st.data())
def test_a_list_that_lacks_pods(history: NodeHistory, data: st.DataObject) -> None:
    """If cgroups are known, any missing pod is detected."""
    report = history.report()
    pods = tuple(pod for pod in report.pods if data.draw(st.booleans()))
    reason = incomplete_list_reason(report._replace(pods=pods, active=active_uids(history)))
    assert (reason is None) == (pods == report.pods)
    assert reason is None or reason.startswith("List does not include ")


@given(node_histories(inits=False), st.data())
def test_without_cgroups(history: NodeHistory, data: st.DataObject) -> None:
    """Without known cgroups, a missing pod is detected if it holds anything."""
    history = history._replace(records=tuple(record for record in history.records if record.alive))
    report = history.report()
    missing = {pod for pod in report.pods if data.draw(st.booleans())}
    holding = any(any(held[1:]) for pod in missing for held in pod.containers)
    reason = incomplete_list_reason(report._replace(pods=tuple(pod for pod in report.pods if pod not in missing)))
    assert (reason is not None) == holding


@given(node_histories())
def test_our_own_pod(history: NodeHistory) -> None:
    """Without the agent's own pod, List is incomplete."""
    own = PodResources("zonewise", "agent-x")
    report = history.report()._replace(active=active_uids(history) | {"own"})
    reason = incomplete_list_reason(report, (own.namespace, own.name))
    assert reason == "List does not include the agent's own pod zonewise/agent-x yet"
    assert incomplete_list_reason(report._replace(pods=(*report.pods, own)), (own.namespace, own.name)) is None
