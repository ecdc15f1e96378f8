"""Whether List tells of all pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import Books, books
from zonewise.kubelet.types import PodResources
from zonewise.usage.pod_matching import incomplete_list_reason


def active_of(made: Books) -> frozenset[str]:
    return frozenset(record.uid for record in made.records if record.alive)


@given(books(), st.booleans())
def test_a_whole_list(made: Books, gone: bool) -> None:
    """A List of all pods is complete, whatever the files still have of others, if it is known that those are gone."""
    records = tuple(record for record in made.records if gone or record.alive)
    report = made._replace(records=records).report()
    assert incomplete_list_reason(report._replace(active=active_of(made))) is None


@given(books(inits=False))
def test_a_whole_list_without_cgroups(made: Books) -> None:
    """So it is where that is not known, unless the files have what cannot be told from pods that are missing."""
    made = made._replace(records=tuple(record for record in made.records if record.alive))
    assert incomplete_list_reason(made.report()) is None


@given(books(), st.data())
def test_a_list_that_lacks_pods(made: Books, data: st.DataObject) -> None:
    """Where cgroups are known, any pod that is missing is missed."""
    report = made.report()
    pods = tuple(pod for pod in report.pods if data.draw(st.booleans()))
    reason = incomplete_list_reason(report._replace(pods=pods, active=active_of(made)))
    assert (reason is None) == (pods == report.pods)
    assert reason is None or reason.startswith("List does not have ")


@given(books(inits=False), st.data())
def test_without_cgroups(made: Books, data: st.DataObject) -> None:
    """Where they are not known, a missing pod is missed if it holds anything."""
    made = made._replace(records=tuple(record for record in made.records if record.alive))
    report = made.report()
    missing = {pod for pod in report.pods if data.draw(st.booleans())}
    holding = any(any(held[1:]) for pod in missing for held in pod.containers)
    reason = incomplete_list_reason(report._replace(pods=tuple(pod for pod in report.pods if pod not in missing)))
    assert (reason is not None) == holding


@given(books())
def test_our_own_pod(made: Books) -> None:
    """Without the pod that asks List is not complete."""
    own = PodResources("zonewise", "agent-x")
    report = made.report()._replace(active=active_of(made) | {"own"})
    reason = incomplete_list_reason(report, (own.namespace, own.name))
    assert reason == "List does not have the agent's own pod zonewise/agent-x yet"
    assert incomplete_list_reason(report._replace(pods=(*report.pods, own)), (own.namespace, own.name)) is None
