"""Ends of pods that no report has shown, compared with kubelets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import ALL, SINGLE, Kubelet, bound_pod, fresh, node_kind, pod, pod_shape, reported
from zonewise_common.nrt.holdings import holdings_key
from zonewise_scheduler.admission.node import Policies, idle_node
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED
from zonewise_scheduler.nodes.assumed.unreported_ends import END_DELAY

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.assumed.types import PendingPod

_TWO_ZONES = node_kind(SINGLE)
KIND = replace(_TWO_ZONES, devices=_TWO_ZONES.devices[1:])
"""Only zone 1 has GPUs."""
KIND_OF_ZONE_0 = replace(_TWO_ZONES, devices=_TWO_ZONES.devices[:1])
"""Only zone 0 has GPUs."""
KINDS = [
    KIND,
    node_kind(SINGLE._replace(scope="pod"), zones=3, cpus=6),
    node_kind(SINGLE, cpus=6, gib=6),
    node_kind(Policies(topology="restricted", cpu="static")),
    node_kind(Policies(topology="best-effort", cpu="static"), zones=3, cpus=5, gpus=1),
]
SHAPES = [
    *(pod_shape((cpus, gpus)) for cpus, gpus in ((1, 0), (2, 1), (3, 0), (4, 1), (5, 0), (6, 0))),
    pod_shape((2, 0), (3, 1)),
    pod_shape((2, 0), gib=3),
]
NEEDS_GPU = pod_shape((4, 1))


def bind(ledger: Ledger, kubelet: Kubelet, name: str, at: float, *, start: bool = True) -> None:
    """Bind a pod to the node; unless `start` is false, its kubelet admits it and the ledger observes the start."""
    assert ledger.assume(pod(name), "n1", at).admitted
    ledger.add_pod(bound_pod(pod(name), "n1"), at)
    if start:
        assert kubelet.decide(pod(name)).admitted
        ledger.add_pod(bound_pod(pod(name), "n1", started=at), at)


def end(ledger: Ledger, kubelet: Kubelet, name: str, at: float) -> None:
    kubelet.end_pod(f"uid-{name}")
    ledger.remove_pod(f"uid-{name}", at)


def ledger_after_end(kubelet: Kubelet) -> Ledger:
    """Return the ledger of a node on which pod b got zone 1, since pod a held zone 0. No report has shown a or b."""
    ledger = reported(kubelet)
    bind(ledger, kubelet, "a", 1.0)
    bind(ledger, kubelet, "b", 2.0)
    end(ledger, kubelet, "a", 10.0)
    return ledger


def test_a_pod_keeps_its_zone_after_the_end_of_an_earlier_pod() -> None:
    """A pod that needs the same zone is not sent to the node: its kubelet would reject it."""
    kubelet = Kubelet("n1", idle_node(KIND))
    ledger = ledger_after_end(kubelet)
    assert ledger.state("n1") == kubelet.state
    verdict = ledger.assume(pod("c", NEEDS_GPU), "n1", 11.0)
    assert (verdict.admitted, verdict.reason) == (False, kubelet.decide(pod("c", NEEDS_GPU)).reason)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["b"]


@pytest.mark.parametrize(("started", "admitted"), [(10.0 - END_DELAY, True), (9.9, False), (None, False)])
def test_a_pod_may_arrive_before_an_end_that_is_observed_later(started: float | None, admitted: bool) -> None:
    """Pod b got zone 1, or zone 0 if a had ended before. So a pod for zone 0 waits, unless b surely arrived before."""
    kubelet = Kubelet("n1", idle_node(KIND_OF_ZONE_0))
    ledger = reported(kubelet)
    bind(ledger, kubelet, "a", 1.0)
    bind(ledger, kubelet, "b", started or 9.9, start=started is not None)
    end(ledger, kubelet, "a", 10.0)
    verdict = ledger.assume(pod("c", NEEDS_GPU), "n1", 11.0)
    assert (verdict.admitted, verdict.reason) == (admitted, "" if admitted else BLOCKED_BY_ASSUMED)


@pytest.mark.parametrize("published", [None, 4.0, 5.0])
def test_reports_after_an_end(published: float | None) -> None:
    """A report that includes a later pod, or that was published after the start of the ended one, shows the end."""
    kubelet = fresh((ALL,))
    ledger = Ledger()
    ledger.update_report(kubelet.report(), 0.0, published=0.0)
    before = kubelet.report()
    bind(ledger, kubelet, "a", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n1", started=1.0, confirmed=4.0), 4.0)
    bind(ledger, kubelet, "b", 2.0)
    end(ledger, kubelet, "a", 10.0)
    state = kubelet.state
    ledger.update_report(before, 11.0, published=published or 3.0)
    if published == 5.0:
        assert ledger.state("n1") != state, "b arrived after this report"
        return
    assert ledger.state("n1") == state
    ledger.update_report(kubelet.report(), 12.0, published=3.0)
    end(ledger, kubelet, "b", 13.0)
    ledger.update_report(kubelet.report(), 14.0, published=14.0)
    assert (ledger.state("n1"), ledger.assumed_pods("n1")) == (kubelet.state, ())


def test_responses_in_another_order_than_the_bindings() -> None:
    """Pods b and c get their zones in the order in which events show their bindings, not in that of the responses."""
    kubelet = fresh()
    ledger = reported(kubelet)
    bind(ledger, kubelet, "a", 1.0)
    pods = [pod("b", pod_shape((1, 0))), pod("c", pod_shape((2, 0)))]
    for pending in reversed(pods):
        assert ledger.assume(pending, "n1", 2.0).admitted
        ledger.confirm_binding(pending, "n1")
    for at, pending in enumerate(pods, start=3):
        assert kubelet.decide(pending).admitted
        ledger.add_pod(bound_pod(pending, "n1", started=at), at)
    end(ledger, kubelet, "a", 10.0)
    assert ledger.state("n1") == kubelet.state


def test_a_report_that_shows_the_pods_otherwise() -> None:
    """If a living pod would be rejected in the order of the ledger, that order is wrong, and the ends do not count."""
    kubelet = Kubelet("n1", idle_node(KIND))
    ledger = ledger_after_end(kubelet)
    full = kubelet.report()
    assert full.state is not None
    ledger.replace_state("n1", full.state._replace(free_cpus=0b111111), 12.0)
    state = ledger.state("n1")
    assert state is not None
    assert state.free_cpus == 0


@given(st.sampled_from(KINDS), st.data())
def test_known_ends_lead_to_the_state_of_the_kubelet(kind: NodeKind, data: st.DataObject) -> None:
    """If the ledger observes each event long before the next one, its state is the kubelet's without any report."""
    kubelet = Kubelet("n1", idle_node(kind))
    ledger = reported(kubelet)
    at = 0.0
    for index in range(data.draw(st.integers(2, 9))):
        at += 2 * END_DELAY
        living = sorted(kubelet.pods)
        if living and data.draw(st.booleans()):
            end(ledger, kubelet, data.draw(st.sampled_from(living)).removeprefix("uid-"), at)
        else:
            pending = pod(f"p{index}", data.draw(st.sampled_from(SHAPES)))
            if ledger.assume(pending, "n1", at).admitted:
                assert kubelet.decide(pending).admitted
                ledger.add_pod(bound_pod(pending, "n1", started=at), at)
        assert ledger.state("n1") == kubelet.state


@given(st.sampled_from(KINDS), st.data())
def test_no_pod_is_rejected_if_all_ends_before_its_admission_were_known(kind: NodeKind, data: st.DataObject) -> None:
    """Pods are in flight while others end, and the ledger observes the ends late."""
    kubelet = Kubelet("n1", idle_node(kind))
    ledger = reported(kubelet)
    in_flight: list[PendingPod] = []
    unseen: dict[str, float] = {}  # by UID: when a pod ended, for ends that the ledger has not observed
    surprised: set[str] = set()  # pods that an end may have surprised
    for index in range(data.draw(st.integers(4, 16))):
        at = END_DELAY / 4 * index
        action = data.draw(st.sampled_from(["assume", "arrive", "end", "observe"]))
        if action == "assume":
            pending = pod(f"p{index}", data.draw(st.sampled_from(SHAPES)))
            if ledger.assume(pending, "n1", at).admitted:
                ledger.add_pod(bound_pod(pending, "n1"), at)
                in_flight.append(pending)
                surprised.update({pending.uid} if unseen else ())
        elif action == "arrive" and in_flight:
            pending = in_flight.pop(0)
            if kubelet.decide(pending).admitted:
                ledger.add_pod(bound_pod(pending, "n1", started=at), at)
            else:
                assert pending.uid in surprised
                ledger.reject_pod(pending.uid, "TopologyAffinityError", "", at)
        elif action == "end" and kubelet.pods:
            uid = data.draw(st.sampled_from(sorted(kubelet.pods)))
            kubelet.end_pod(uid)
            unseen[uid] = at
            surprised.update(pending.uid for pending in in_flight)
        for uid in [uid for uid, since in unseen.items() if action == "observe" or since + END_DELAY / 2 <= at]:
            del unseen[uid]
            ledger.remove_pod(uid, at)


@given(st.sampled_from(KINDS), st.data())
def test_reported_pods_end_while_the_agent_is_down(kind: NodeKind, data: st.DataObject) -> None:
    """A report shows some pods, perhaps late. Without another report, the state is the kubelet's after each event."""
    kubelet = Kubelet("n1", idle_node(kind), lists_holdings=True)
    ledger = reported(kubelet)
    late: list[NodeReport] = []
    at = 0.0
    for index in range(data.draw(st.integers(2, 12))):
        at += 2 * END_DELAY
        living = sorted(kubelet.pods)
        action = data.draw(st.sampled_from(["end", "bind", "bind", "report", "late report"]))
        if action == "end" and living:
            end(ledger, kubelet, data.draw(st.sampled_from(living)).removeprefix("uid-"), at)
        elif action == "bind":
            pending = pod(f"p{index}", data.draw(st.sampled_from(SHAPES)))
            if ledger.assume(pending, "n1", at).admitted:
                assert kubelet.decide(pending).admitted
                ledger.add_pod(bound_pod(pending, "n1", started=at, confirmed=at), at)
        elif action == "report":
            late.append(kubelet.report())
        elif action == "late report" and late:
            ledger.update_report(late.pop(), at, published=at - END_DELAY)
            late.clear()
        assert ledger.state("n1") == kubelet.state


def full_node() -> tuple[Kubelet, Ledger]:
    """Return a node that is full according to its report."""
    kubelet = Kubelet("n1", idle_node(KIND), lists_holdings=True)
    ledger = Ledger()
    for name in "ab":
        kubelet.decide(pod(name))
        ledger.add_pod(bound_pod(pod(name), "n1", started=0.0), 0.0)
    ledger.update_report(kubelet.report(), 1.0)
    return kubelet, ledger


def test_a_full_node_does_not_remain_full_while_its_agent_is_down() -> None:
    """The API shows the end of a reported pod; hours later, its zone is still available, and given away once."""
    kubelet, ledger = full_node()
    assert not ledger.assume(pod("c"), "n1", 2.0).admitted
    end(ledger, kubelet, "a", 3.0)
    assert ledger.changed_nodes() == {"n1"}
    for at in (4.0, 7200.0):
        ledger.tick(at)
        assert ledger.state("n1") == kubelet.state
    bind(ledger, kubelet, "c", 7201.0)
    assert not ledger.assume(pod("d"), "n1", 7202.0).admitted
    occupancy = ledger.occupancy("n1")
    assert occupancy is not None
    assert (occupancy.state, list(occupancy.holdings)) == (kubelet.state, [holdings_key("jobs", "b")])


def test_a_pod_that_a_restored_api_server_shows_again() -> None:
    """The pod had seemed to be deleted, but its kubelet still runs it. So it holds its zone, in the report or not."""
    kubelet, ledger = full_node()
    full = ledger.state("n1")
    ledger.remove_pod("uid-a", 3.0)
    assert ledger.state("n1") != full
    ledger.add_pod(bound_pod(pod("a"), "n1", started=0.0), 4.0)
    assert (ledger.node_of("uid-a"), ledger.state("n1")) == ("n1", full)
    end(ledger, kubelet, "a", 5.0)
    bind(ledger, kubelet, "c", 6.0)
    ledger.remove_pod("uid-c", 7.0)
    ledger.add_pod(bound_pod(pod("c"), "n1", started=6.0), 8.0)
    assert ledger.state("n1") == kubelet.state


def test_a_pod_that_is_in_flight_at_the_end_of_a_reported_pod() -> None:
    """It got the only free zone, or the zone of the ended pod, so no pod is sent that needs one of the two."""
    kubelet = Kubelet("n1", idle_node(KIND_OF_ZONE_0), lists_holdings=True)
    ledger = Ledger()
    kubelet.decide(pod("a"))
    ledger.add_pod(bound_pod(pod("a"), "n1", started=0.0), 0.0)
    ledger.update_report(kubelet.report(), 1.0)
    bind(ledger, kubelet, "b", 2.0, start=False)
    end(ledger, kubelet, "a", 2.1)
    assert ledger.assume(pod("c", NEEDS_GPU), "n1", 2.2).reason == BLOCKED_BY_ASSUMED
    assert ledger.assume(pod("d"), "n1", 2.3).admitted


@pytest.mark.parametrize("successor_ends", [False, True])
def test_a_report_with_a_successor_of_an_ended_pod(successor_ends: bool) -> None:
    """If it may show either of two pods of one name, nothing is released before both end, or the first is forgotten."""
    kubelet, ledger = full_node()
    end(ledger, kubelet, "a", 3.0)
    successor = pod("a", uid="new")
    assert ledger.assume(successor, "n1", 4.0).admitted
    kubelet.decide(successor)
    ledger.add_pod(bound_pod(successor, "n1"), 4.0)
    assert ledger.state("n1") == kubelet.state
    ledger.update_report(kubelet.report(), 5.0, published=5.0)
    assert not ledger.assume(pod("c", pod_shape((3, 0))), "n1", 6.0).admitted
    if successor_ends:
        kubelet.end_pod("new")
        ledger.remove_pod("new", 7.0)
    else:
        ledger.tick(94.0)
    assert (ledger.state("n1"), ledger.assumed_pods("n1")) == (kubelet.state, ())


@pytest.mark.parametrize("holdings", [None, ((0, "damaged"),)])
def test_unknown_holdings_are_released_by_the_next_report(holdings: tuple[tuple[int, str], ...] | None) -> None:
    kubelet, ledger = full_node()
    full = kubelet.report()
    ledger.update_report(full._replace(holdings=holdings), 2.0)
    end(ledger, kubelet, "a", 3.0)
    assert ledger.state("n1") == full.state
    ledger.update_report(kubelet.report(), 4.0)
    assert ledger.state("n1") == kubelet.state


def test_short_pods_do_not_hide_an_earlier_end() -> None:
    """Pod b keeps zone 1 however many pods end after a, and however long ago a has ended."""
    kubelet = Kubelet("n1", idle_node(KIND))
    ledger = ledger_after_end(kubelet)
    for index in range(20):
        at = 20.0 + 10 * index
        bind(ledger, kubelet, f"p{index}", at)
        assert ledger.state("n1") == kubelet.state
        end(ledger, kubelet, f"p{index}", at + 5)
        ledger.tick(at + 6)
        assert ledger.state("n1") == kubelet.state


def test_ends_do_not_count_if_the_pods_of_the_report_are_unknown() -> None:
    """Its numbers may include the pods that have ended and the pods after them."""
    kubelet = Kubelet("n1", idle_node(KIND), methods=())
    ledger = ledger_after_end(kubelet)
    state = ledger.state("n1")
    assert state is not None
    assert state != kubelet.state
    assert state.free_cpus.bit_count() == kubelet.state.free_cpus.bit_count()


def test_many_ends_leave_a_node_open() -> None:
    """While an agent is down, short-lived pods of several shapes come and go, and starts coincide with ends."""
    kubelet = Kubelet("n1", idle_node(node_kind(SINGLE, zones=4, cpus=16)))
    ledger = reported(kubelet)
    running: list[PendingPod] = []
    for index in range(30):
        at = 1.0 + index / 5
        pending = pod(f"p{index}", pod_shape((1 + index % 3, 0)))
        assert ledger.assume(pending, "n1", at).admitted
        ledger.add_pod(bound_pod(pending, "n1"), at)
        assert kubelet.decide(pending).admitted
        ledger.add_pod(bound_pod(pending, "n1", started=at), at + 0.1)
        running.append(pending)
        if len(running) > 6:
            oldest = running.pop(index % 5)
            kubelet.end_pod(oldest.uid)
            ledger.remove_pod(oldest.uid, at + 0.15)
