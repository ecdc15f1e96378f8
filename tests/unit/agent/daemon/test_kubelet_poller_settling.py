"""How long responses are rejected after a kubelet has started, and which pods count as new."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clock import Clock
from support.kubelet_reports import CONFIG, NodeHistory, Record, make_node
from support.kubelets import pod
from support.loops import DOWN, OK, STARTING, Loop
from zonewise.daemon.events import Reason
from zonewise.daemon.kubelet_poller import SETTLING_SECONDS, STEADY_SECONDS, KubeletStart, NewPods
from zonewise.kubelet.errors import Unsettled
from zonewise.kubelet.types import Allocatable, ContainerResources, KubeletReport, PodResources
from zonewise_common.k8s.cpuset import CpuSet

OWN = ("zonewise", "agent-x")
THREE = NodeHistory(
    make_node((0, 1)),
    tuple(
        Record(name, PodResources("ns", name, (ContainerResources("c", CpuSet((cpu,))),)))
        for name, cpu in (("a", 1), ("b", 2), ("c", 3))
    ),
).report()
PART_OF_THREE = THREE._replace(pods=THREE.pods[:1])
MOST_OF_THREE = THREE._replace(pods=THREE.pods[:2])
ALL = NodeHistory(
    make_node((0, 1)),
    tuple(
        Record(name, PodResources("ns", name, (ContainerResources("c", CpuSet((cpu,))),)))
        for name, cpu in (("a", 1), ("b", 2))
    ),
).report()
PART = ALL._replace(pods=ALL.pods[:1])
NONE = ALL._replace(pods=())
UNREADY = KubeletReport((), Allocatable(), CONFIG)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def is_accepted(start: KubeletStart, report: KubeletReport) -> bool:
    try:
        start.check(report)
    except Unsettled:
        return False
    return True


def test_a_running_kubelet_is_accepted(clock: Clock) -> None:
    """Files with more entries than List do not delay the start of an agent."""
    assert is_accepted(KubeletStart(clock, None), PART)


def test_after_a_start_the_poller_waits_for_all_pods(clock: Clock) -> None:
    """Once all pods have been listed, the wait is over; pods missing after that have ended."""
    start = KubeletStart(clock, None)
    start.note_restart()
    assert not is_accepted(start, PART)
    clock.advance(1.3)
    assert is_accepted(start, ALL)
    assert is_accepted(start, PART)


def test_the_wait_is_bounded(clock: Clock) -> None:
    """List is accepted in the end; the time limit starts when the kubelet's managers run."""
    start = KubeletStart(clock, None)
    start.note_restart()
    assert is_accepted(start, UNREADY)
    clock.advance(3 * SETTLING_SECONDS)
    assert not is_accepted(start, NONE)
    clock.advance(SETTLING_SECONDS - 0.1)
    assert not is_accepted(start, NONE)
    clock.advance(0.1)
    assert is_accepted(start, NONE)


@pytest.mark.parametrize("own", [None, ("ns", "a")])
def test_a_list_without_new_pods_is_complete(clock: Clock, own: tuple[str, str] | None) -> None:
    """The kubelet gets all pods of the API server in one step: pods still missing then ended while it was down."""
    start = KubeletStart(clock, own)
    start.note_restart()
    assert not is_accepted(start, PART)
    clock.advance(STEADY_SECONDS - 0.1)
    assert not is_accepted(start, PART)
    clock.advance(0.1)
    assert start.check(PART)


def test_a_new_pod_restarts_the_wait(clock: Clock) -> None:
    start = KubeletStart(clock, None)
    start.note_restart()
    assert not is_accepted(start, PART_OF_THREE)
    clock.advance(STEADY_SECONDS - 0.1)
    assert not is_accepted(start, MOST_OF_THREE)
    clock.advance(STEADY_SECONDS - 0.1)
    assert not is_accepted(start, MOST_OF_THREE)
    clock.advance(0.1)
    assert is_accepted(start, MOST_OF_THREE)


def test_static_pods_alone_prove_nothing(clock: Clock) -> None:
    """They are listed before the API server's pods, and hold none of the resources in the checkpoints."""
    static = NONE._replace(pods=(PodResources("kube-system", "etcd", (ContainerResources("c"),)),))
    start = KubeletStart(clock, None)
    start.note_restart()
    assert not is_accepted(start, static)
    clock.advance(STEADY_SECONDS)
    assert not is_accepted(start, static)


def test_managers_that_do_not_run_yet_are_a_start(clock: Clock) -> None:
    """The start is noticed without an event."""
    start = KubeletStart(clock, None)
    assert is_accepted(start, UNREADY)
    assert not is_accepted(start, PART)


def test_without_our_own_pod(clock: Clock) -> None:
    """A List without the agent's own pod is rejected as long as after a start, and again once the pod was listed."""
    start = KubeletStart(clock, OWN)
    assert not is_accepted(start, ALL)
    clock.advance(SETTLING_SECONDS)
    assert is_accepted(start, ALL)
    assert is_accepted(start, PART)
    assert is_accepted(start, ALL._replace(pods=(*ALL.pods, PodResources(*OWN))))
    assert not is_accepted(start, ALL)


def test_sources_that_are_not_ready(clock: Clock) -> None:
    """If List no longer includes the agent's own pod, the kubelet does not know the API server's pods yet."""
    with_own = ALL._replace(pods=(*ALL.pods, PodResources(*OWN)))
    start = KubeletStart(clock, OWN)
    assert start.check(with_own)
    start.note_restart()
    assert not is_accepted(start, ALL)
    clock.advance(SETTLING_SECONDS)
    assert not start.check(ALL)
    clock.advance(100 * SETTLING_SECONDS)
    assert not start.check(ALL)
    assert not is_accepted(start, with_own._replace(pods=with_own.pods[1:]))
    assert start.check(with_own)


def test_sources_without_our_own_pod(clock: Clock) -> None:
    """If the agent is not a pod of the node, only the time limit ends the wait."""
    start = KubeletStart(clock, None)
    start.note_restart()
    assert not is_accepted(start, PART)
    clock.advance(SETTLING_SECONDS)
    assert start.check(PART)


@given(st.lists(st.tuples(st.sampled_from([ALL, PART, UNREADY, None]), st.floats(0, SETTLING_SECONDS))))
def test_the_wait_never_exceeds_its_limit(happenings: list[tuple[KubeletReport | None, float]]) -> None:
    """Whatever the kubelet does, it is accepted once the time limit after its last start has passed."""
    clock = Clock()
    start = KubeletStart(clock, OWN)
    for report, seconds in happenings:
        clock.advance(seconds)
        if report is None:
            start.note_restart()
        else:
            is_accepted(start, report)
    is_accepted(start, PART)
    clock.advance(SETTLING_SECONDS)
    assert is_accepted(start, PART)


# --- in the loop


def incomplete(*_: object) -> str:
    return "List does not include all pods yet"


@pytest.mark.parametrize("how", [DOWN, STARTING, "socket"])
def test_a_start_is_noticed(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed call, idle managers or a new socket indicate a start.

    Until all pods are listed, the old report remains.
    """
    loop = Loop()
    loop.kubelet.managers.admit(pod("a", 2))
    loop.run_once(Reason.START)
    before = loop.sink.published
    if how == "socket":
        reasons = {Reason.SOCKET}
    else:
        loop.kubelet.mood = how
        loop.run_once(Reason.TIMER)
        loop.kubelet.mood, reasons = OK, {Reason.RETRY}
    monkeypatch.setattr("zonewise.daemon.kubelet_poller.incomplete_list_reason", incomplete)
    assert loop.run_once(*reasons) is not None
    assert loop.sink.snapshots[-1].problems == (
        "the kubelet's allocations cannot be read: List does not include all pods yet",
    )
    assert loop.sink.published == before
    loop.clock.advance(SETTLING_SECONDS)
    assert loop.run_once(Reason.RETRY) is None


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_start_without_an_event_is_noticed(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client repeats calls across a restart.

    The socket's identity has changed even if its event has not arrived yet.
    """
    loop = Loop()
    loop.kubelet.managers.admit(pod("a", 2))
    loop.run_once(Reason.START)
    before = loop.sink.published
    monkeypatch.setattr("zonewise.daemon.kubelet_poller.incomplete_list_reason", incomplete)
    list_pods = loop.kubelet.list

    def restarting() -> tuple[PodResources, ...]:
        loop.kubelet.restarts += 1
        return list_pods()

    if when == "before":
        loop.kubelet.restarts += 1
    else:
        monkeypatch.setattr(loop.kubelet, "list", restarting)
    loop.kubelet.managers.admit(pod("b", 2))
    assert loop.run_once(Reason.STATE) is not None
    assert loop.sink.published == before


# --- new pods


def test_a_pod_without_a_cgroup_counts_while_it_is_new(clock: Clock) -> None:
    """Pods that existed at the start are old. A pod whose cgroup has disappeared is no longer new."""
    newcomers = NewPods(clock)
    assert newcomers.active_uids(frozenset(), ["old"]) == frozenset()
    assert newcomers.active_uids(frozenset({"idle"}), ["old", "new", "other"]) == {"idle", "new", "other"}
    assert newcomers.active_uids(frozenset({"new"}), ["old", "new", "other"]) == {"new", "other"}
    assert newcomers.active_uids(frozenset(), ["old", "new", "other"]) == {"other"}
    clock.advance(SETTLING_SECONDS)
    assert newcomers.active_uids(frozenset(), ["old", "new", "other"]) == frozenset()


def test_unknown_cgroups_give_unknown_pods(clock: Clock) -> None:
    newcomers = NewPods(clock)
    assert newcomers.active_uids(None, ["a"]) is None
    assert newcomers.active_uids(None, ["a", "b"]) is None
    assert newcomers.active_uids(frozenset(), ["a", "b"]) == {"b"}
