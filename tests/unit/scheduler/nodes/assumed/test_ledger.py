"""The ledger, told by examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.ledger_kubelets import ALL, EXCLUSIVE, SHARED, SINGLE, Kubelet, bound, kind_of, report_of, shape_of
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, BOUND, NO_REPORT, NODE_BACKOFF, PendingPod

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape

KIND = kind_of(SINGLE)
MOST = shape_of((6, 0))
"""Most of a zone of 8 CPUs."""


def pod(name: str, shape: PodShape = MOST, uid: str = "") -> PendingPod:
    return PendingPod(uid or f"uid-{name}", "jobs", name, shape)


def reported(kubelet: Kubelet, at: float = 0.0) -> Ledger:
    """A ledger that has the node's first report."""
    ledger = Ledger()
    ledger.update_report(kubelet.report(), at)
    return ledger


def fresh(methods: tuple[str, ...] = (ALL, EXCLUSIVE), *, hidden: bool = False) -> Kubelet:
    return Kubelet("n1", idle_node(KIND), methods, hidden)


def test_the_burst_of_three() -> None:
    """Three pods that each need most of one of two zones: the third is refused before the kubelet has seen any."""
    ledger = reported(fresh())
    first, second, third = (ledger.assume(pod(name), "n1", 1.0) for name in "abc")
    assert [share.cpus for verdict in (first, second) for share in verdict.assignments] == [0b111111, 0b111111 << 8]
    assert (third.admitted, third.reason) == (False, "TopologyAffinityError")
    assert ledger.counters().in_flight == 2


def test_a_stale_report_after_a_promise() -> None:
    """A report from before a pod came leaves the pod charged; one with it covers it."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound(pod("a"), "n1"), 2.0)
    promised = ledger.state("n1")
    ledger.update_report(kubelet.report(), 3.0)
    assert ledger.state("n1") == promised
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    kubelet.sees(pod("a"))
    ledger.update_report(kubelet.report(), 4.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)
    assert ledger.counters().covered == 1


def test_a_report_is_stale_once_a_pod_has_run_for_long_without_being_in_it() -> None:
    """Not by a pod that no kubelet has taken, and not on a node that has no report at all."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.add_pod(bound(pod("a"), "n1"), 1.0)
    assert not ledger.is_stale("n1", 99.0, 30.0)
    ledger.add_pod(bound(pod("a"), "n1", started=2.0), 2.0)
    assert [ledger.is_stale("n1", at, 30.0) for at in (2.0, 32.0, 32.1)] == [False, False, True]
    kubelet.sees(pod("a"))
    ledger.update_report(kubelet.report(), 33.0)
    assert not ledger.is_stale("n1", 99.0, 30.0)
    ledger.add_pod(bound(pod("b"), "n2", started=2.0), 2.0)
    assert not ledger.is_stale("n2", 99.0, 30.0)
    assert not ledger.is_stale("unheard of", 99.0, 30.0)


def test_a_report_that_has_the_pod_before_the_api_shows_it_bound() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    kubelet.sees(pod("a"))
    ledger.update_report(kubelet.report(), 2.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)
    ledger.add_pod(bound(pod("a"), "n1", 1.5), 3.0)
    ledger.tick(1000.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_older_and_equal_reports_change_nothing() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    old = kubelet.report()
    kubelet.sees(pod("a"))
    ledger.add_pod(bound(pod("a"), "n1", 1.0), 1.0)
    new = kubelet.report()
    for report in (new, old, new):
        ledger.update_report(report, 2.0)
        assert ledger.state("n1") == kubelet.state


def test_a_promise_is_made_once() -> None:
    """The same pod on the same node is not charged again, and its verdict is the same, also once it is bound."""
    ledger = reported(fresh())
    verdict = ledger.assume(pod("a"), "n1", 1.0)
    assert ledger.assume(pod("a"), "n1", 2.0) is verdict
    ledger.add_pod(bound(pod("a"), "n1"), 3.0)
    assert ledger.assume(pod("a"), "n1", 4.0) is verdict
    assert ledger.counters().promised == len(ledger.assumed_pods("n1")) == 1


def test_a_promise_that_moves() -> None:
    """Promised to another node that admits it, a pod is given back by the first; where it is refused it stays."""
    ledger = reported(fresh())
    ledger.update_report(report_of("n2", idle_node(KIND), [], 1), 0.0)
    for name in "ab":
        ledger.assume(pod(name), "n2", 1.0)
    ledger.assume(pod("c"), "n1", 1.0)
    assert not ledger.assume(pod("c"), "n2", 2.0).admitted
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["c"]
    assert ledger.assume(pod("a"), "n1", 3.0).admitted
    assert [[entry.name for entry in ledger.assumed_pods(node)] for node in ("n1", "n2")] == [["c", "a"], ["b"]]


def test_a_pod_bound_elsewhere() -> None:
    """What is bound to another node than promised is charged there, and cannot be promised any more."""
    ledger = reported(fresh())
    ledger.update_report(report_of("n2", idle_node(KIND), [], 1), 0.0)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound(pod("a"), "n2"), 2.0)
    assert [len(ledger.assumed_pods(node)) for node in ("n1", "n2")] == [0, 1]
    assert ledger.assume(pod("a"), "n1", 3.0).reason == BOUND
    assert ledger.counters().withdrawn == 1


def test_a_pod_of_others_is_charged() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.add_pod(bound(pod("a"), "n1"), 1.0)
    kubelet.sees(pod("a"))
    assert ledger.state("n1") == kubelet.state
    assert [entry.predicted for entry in ledger.assumed_pods("n1")] == [None]


def test_another_order_that_would_fail() -> None:
    """A pod that needs the GPU's zone is not promised while one that fits both zones may come after it, or before."""
    kind = kind_of(SINGLE)
    state = idle_node(kind)._replace(device_free=(1, 0), free_cpus=0b11111111_00111111)
    ledger = Ledger()
    ledger.update_report(report_of("n1", state, [], 1), 0.0)
    assert ledger.assume(pod("a", shape_of((7, 0))), "n1", 1.0).assignments[0].cpus == 0b1111111_00000000
    assert ledger.assume(pod("b", shape_of((2, 1))), "n1", 1.0).admitted, "whatever the order, they do not meet"
    ledger.forget("uid-a", 2.0)
    ledger.forget("uid-b", 2.0)
    ledger.assume(pod("c", shape_of((4, 1))), "n1", 3.0)
    refusal = ledger.assume(pod("d", shape_of((4, 0))), "n1", 3.0)
    assert (refusal.reason, refusal.admitted) == (BLOCKED_BY_ASSUMED, False), (
        "d before c would take the CPUs beside the GPU"
    )
    assert "another order" in refusal.message


def test_too_many_orders() -> None:
    """With so many different pods in flight that their orders are too many, the node waits for a report."""
    kubelet = Kubelet("n1", idle_node(kind_of(SINGLE, zones=4, cpus=32)))
    ledger = reported(kubelet)
    shapes = [shape_of((cpus, 0)) for cpus in range(7, 16)]
    verdicts = [ledger.assume(pod(f"p{place}", shape), "n1", 1.0) for place, shape in enumerate(shapes)]
    taken = [verdict.admitted for verdict in verdicts].index(False)
    assert taken >= 4
    assert verdicts[taken].reason == BLOCKED_BY_ASSUMED
    assert verdicts[taken].message == f"the {taken + 1} pods on their way to the node may come in too many orders"
    for place, shape in enumerate(shapes[:taken]):
        kubelet.sees(pod(f"p{place}", shape))
    ledger.update_report(kubelet.report(), 2.0)
    assert ledger.assume(pod("next", shapes[taken]), "n1", 3.0).admitted


def test_equal_pods_have_one_order() -> None:
    ledger = Ledger()
    ledger.update_report(report_of("n1", idle_node(kind_of(SINGLE, cpus=64)), [], 1), 0.0)
    assert all(ledger.assume(pod(f"p{one}", shape_of((1, 0))), "n1", 1.0).admitted for one in range(100))


def test_a_pod_that_holds_nothing_is_not_charged() -> None:
    """It is admitted even on a node that takes no others, and is in the way of nobody."""
    ledger = reported(fresh())
    before = ledger.state("n1")
    assert all(ledger.assume(pod(f"s{one}", SHARED), "n1", 1.0).admitted for one in range(10))
    assert (ledger.state("n1"), ledger.assumed_pods("n1")) == (before, ())


def test_a_promise_withdrawn_and_one_expired() -> None:
    ledger = reported(fresh())
    before = ledger.state("n1")
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.forget("uid-a", 2.0)
    assert ledger.state("n1") == before
    ledger.assume(pod("b"), "n1", 10.0)
    ledger.tick(129.0)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.tick(130.0)
    assert (ledger.state("n1"), ledger.assumed_pods("n1")) == (before, ())
    counters = ledger.counters()
    assert (counters.promised, counters.withdrawn, counters.expired, counters.in_flight) == (2, 1, 1, 0)


def test_a_bound_pod_is_not_withdrawn_and_does_not_expire() -> None:
    ledger = reported(fresh())
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound(pod("a"), "n1"), 2.0)
    ledger.forget("uid-a", 3.0)
    ledger.tick(10_000.0)
    assert len(ledger.assumed_pods("n1")) == 1


def test_a_pod_deleted_before_it_came() -> None:
    """A pod that ended by its kubelet's word leaves at once, one that was deleted by force a settle time later."""
    ledger = reported(fresh())
    before = ledger.state("n1")
    for name in "ab":
        ledger.assume(pod(name), "n1", 1.0)
        ledger.add_pod(bound(pod(name), "n1"), 2.0)
    ledger.remove_pod("uid-a", 3.0, terminated=True)
    ledger.remove_pod("uid-b", 3.0)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["b"]
    ledger.tick(92.9)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["b"]
    ledger.tick(93.0)
    assert ledger.state("n1") == before


def test_a_promised_pod_that_is_deleted_is_withdrawn() -> None:
    ledger = reported(fresh())
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.remove_pod("uid-a", 2.0)
    assert (ledger.assumed_pods("n1"), ledger.counters().withdrawn) == ((), 1)


def test_a_pod_that_its_kubelet_let_go() -> None:
    """A pod in no report any more is charged until the API says so too, and then leaves at once."""
    kubelet = fresh()
    kubelet.sees(pod("a"))
    ledger = Ledger()
    ledger.add_pod(bound(pod("a"), "n1", 0.0), 0.0)
    ledger.update_report(kubelet.report(), 1.0)
    assert ledger.assumed_pods("n1") == ()
    kubelet.ends("uid-a")
    ledger.update_report(kubelet.report(), 2.0)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    ledger.remove_pod("uid-a", 2.5)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_a_successor_of_the_same_name() -> None:
    """A report that may be about the pod before does not cover the one after, until time or a report has told."""
    kubelet = fresh()
    kubelet.sees(pod("web-0", uid="old"))
    ledger = Ledger()
    ledger.add_pod(bound(pod("web-0", uid="old"), "n1", 0.0), 0.0)
    ledger.update_report(kubelet.report(), 1.0)
    late = kubelet.report()
    kubelet.ends("old")
    ledger.remove_pod("old", 2.0, terminated=True)
    ledger.assume(pod("web-0", uid="new"), "n1", 3.0)
    ledger.add_pod(bound(pod("web-0", uid="new"), "n1"), 3.0)
    ledger.update_report(late, 4.0)
    assert [entry.uid for entry in ledger.assumed_pods("n1")] == ["new"]
    kubelet.sees(pod("web-0", uid="new"))
    ledger.update_report(kubelet.report(), 5.0)
    assert [entry.uid for entry in ledger.assumed_pods("n1")] == ["new"], "nothing tells this report from a late one"
    ledger.tick(92.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_a_rejected_pod() -> None:
    """Its charge ends, the miss tells all, and such pods are not promised there for a while, longer each time."""
    ledger = reported(fresh())
    before = ledger.state("n1")
    at, waits = 1.0, list[float]()
    for attempt in range(8):
        verdict = ledger.assume(pod(f"a{attempt}"), "n1", at)
        assert verdict.admitted
        miss = ledger.reject_pod(f"uid-a{attempt}", "TopologyAffinityError", "Resources cannot be allocated", at)
        assert miss is not None
        assert (miss.state, miss.ahead, miss.foretold) == (before, (), verdict)
        assert ledger.state("n1") == before
        refusal = ledger.assume(pod("b"), "n1", at)
        assert refusal.reason == NODE_BACKOFF
        assert ledger.assume(pod(f"other{attempt}", shape_of((1, 0))), "n1", at).admitted
        ledger.forget(f"uid-other{attempt}", at)
        waits.append(float(refusal.message.split()[-2]))
        at += waits[-1]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
    assert ledger.counters().missed == (("TopologyAffinityError", 8),)


def test_a_success_takes_a_pair_back() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.assume(pod("b"), "n1", 1.0)
    ledger.reject_pod("uid-a", "SMTAlignmentError", "", 2.0)
    kubelet.sees(pod("b"))
    ledger.update_report(kubelet.report(), 3.0)
    assert ledger.assume(pod("c"), "n1", 4.0).admitted


def test_a_pod_of_others_that_is_rejected_is_no_miss() -> None:
    ledger = reported(fresh())
    ledger.add_pod(bound(pod("a"), "n1"), 1.0)
    assert ledger.reject_pod("uid-a", "OutOfcpu", "", 2.0) is None
    assert ledger.reject_pod("unheard of", "OutOfpods", "", 2.0) is None
    assert (ledger.counters().refused, ledger.counters().missed) == ((("OutOfcpu", 1), ("OutOfpods", 1)), ())
    assert ledger.assume(pod("b"), "n1", 3.0).admitted


def test_a_node_without_a_report() -> None:
    """It refuses, or reserves blindly if it is told to; a report then has it charged."""
    kubelet = fresh()
    ledger = Ledger()
    assert ledger.assume(pod("a"), "n1", 1.0).reason == NO_REPORT
    verdict = ledger.assume(pod("a"), "n1", 1.0, allow_unreported=True)
    assert (verdict.admitted, verdict.uncertain) == (True, ("the node has no report",))
    assert ledger.state("n1") is None
    ledger.update_report(kubelet.report(), 2.0)
    kubelet.sees(pod("a"))
    assert ledger.state("n1") == kubelet.state
    assert ledger.reject_pod("uid-a", "TopologyAffinityError", "", 3.0) is None, "nothing was foretold"


def test_a_report_that_goes_and_comes_back() -> None:
    """Pods stay known meanwhile, and the version starts anew."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.remove_report("n1", 2.0)
    assert (ledger.state("n1"), ledger.assume(pod("b"), "n1", 3.0).reason) == (None, NO_REPORT)
    kubelet.reports = 0
    ledger.update_report(kubelet.report(), 4.0)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    ledger.remove_report("unheard of", 5.0)


def test_pods_that_no_longer_fit_on_a_report() -> None:
    """Nothing is left of the node until a report has cleared it up, and no more is promised."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound(pod("a"), "n1"), 1.0)
    kubelet.state = kubelet.state._replace(free_cpus=0b1111)
    ledger.update_report(kubelet.report(), 2.0)
    state = ledger.state("n1")
    assert state is not None
    assert (state.free_cpus, state.device_free) == (0, (0, 0))
    assert ledger.assume(pod("b", shape_of((1, 0))), "n1", 3.0).reason == BLOCKED_BY_ASSUMED
    assert ledger.assume(pod("s", SHARED), "n1", 3.0).admitted
    assert ledger.counters().blocked == 1
    ledger.reject_pod("uid-a", "TopologyAffinityError", "", 4.0)
    assert (ledger.state("n1"), ledger.counters().blocked) == (kubelet.state, 0)


@pytest.mark.parametrize(("methods", "hidden"), [((), False), ((ALL, EXCLUSIVE), True)])
def test_reports_that_do_not_tell_their_pods(methods: tuple[str, ...], hidden: bool) -> None:
    """Without a fingerprint that we know the pods of, a pod leaves a settle time after its kubelet started it."""
    kubelet = fresh(methods, hidden=hidden)
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    kubelet.sees(pod("a"))
    ledger.add_pod(bound(pod("a"), "n1", 2.0), 2.0)
    ledger.tick(1000.0)
    assert len(ledger.assumed_pods("n1")) == 1, "no report since"
    ledger.update_report(kubelet.report(), 1001.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)
    ledger.assume(pod("b"), "n1", 1002.0)
    kubelet.sees(pod("b"))
    ledger.add_pod(bound(pod("b"), "n1", 1002.0), 1002.0)
    ledger.update_report(kubelet.report(), 1003.0)
    ledger.tick(1091.0)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.tick(1092.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_a_report_from_before_the_ledger_was_opened() -> None:
    """It came only now, but was written before a pod started: its time of writing tells."""
    kubelet = fresh(())
    report = kubelet.report()
    kubelet.sees(pod("a"))
    ledger = Ledger()
    ledger.add_pod(bound(pod("a"), "n1", 100.0), 1000.0)
    ledger.update_report(report, 1000.0, published=90.0)
    ledger.tick(5000.0)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.update_report(kubelet.report(), 5001.0, published=101.0)
    assert ledger.assumed_pods("n1") == ()


def test_news_of_pods_after_their_report() -> None:
    """Pods of others that a report had before the API told of them are covered once it does."""
    kubelet = fresh()
    for name in "ab":
        kubelet.sees(pod(name, shape_of((3, 0))))
    ledger = reported(kubelet)
    ledger.add_pod(bound(pod("a", shape_of((3, 0))), "n1", 0.5), 1.0)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.add_pod(bound(pod("b", shape_of((3, 0))), "n1", 0.5), 1.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_only_the_pods_that_hold_something() -> None:
    """The fingerprint of pods that hold something of a zone suffices where unknown pods spoil the other."""
    kubelet = fresh((EXCLUSIVE,))
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound(pod("s", SHARED), "n1"), 1.0)
    for name, shape in (("a", MOST), ("s", SHARED), ("unknown", SHARED)):
        kubelet.sees(pod(name, shape))
    ledger.update_report(kubelet.report(), 2.0)
    assert ledger.assumed_pods("n1") == ()


def test_a_shape_that_changes() -> None:
    ledger = reported(fresh())
    ledger.add_pod(bound(pod("a"), "n1"), 1.0)
    small = ledger.add_pod(bound(pod("a", shape_of((1, 0))), "n1"), 2.0)
    assert small is None
    state = ledger.state("n1")
    assert state is not None
    assert state.free_cpus == 0xFFFE


def test_changes() -> None:
    """Nodes are named once for each change of their state, however many events it took, and not for none."""
    kubelet = fresh()
    ledger = reported(kubelet)
    assert ledger.changed_nodes() == {"n1"}
    assert ledger.changed_nodes() == frozenset()
    ledger.assume(pod("a"), "n1", 1.0)
    assert ledger.changed_nodes() == {"n1"}
    ledger.add_pod(bound(pod("a"), "n1"), 2.0)
    kubelet.sees(pod("a"))
    ledger.update_report(kubelet.report(), 3.0)
    assert ledger.changed_nodes() == frozenset(), "what was foretold has come true"
    ledger.assume(pod("b"), "n1", 4.0)
    ledger.forget("uid-b", 5.0)
    assert ledger.changed_nodes() == frozenset()
    ledger.remove_report("n1", 6.0)
    assert ledger.changed_nodes() == {"n1"}
    ledger.remove_pod("uid-a", 7.0, terminated=True)
    ledger.tick(1000.0)
    assert (ledger.changed_nodes(), ledger.state("n1"), ledger.assumed_pods("n1")) == (frozenset(), None, ())


def test_events_of_pods_unheard_of() -> None:
    ledger = Ledger()
    ledger.remove_pod("nobody", 1.0)
    ledger.forget("nobody", 1.0)
    ledger.tick(2.0)
    assert (ledger.changed_nodes(), ledger.assumed_pods("n1"), ledger.state("n1")) == (frozenset(), (), None)
