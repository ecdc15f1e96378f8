"""Examples for the ledger."""

from __future__ import annotations

import pytest

from support.ledger_kubelets import (
    ALL,
    EXCLUSIVE,
    KIND,
    SHARED,
    SINGLE,
    Kubelet,
    bound_pod,
    fresh,
    node_kind,
    node_report,
    pod,
    pod_shape,
    reported,
)
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, BOUND, NO_REPORT, NODE_BACKOFF


def test_burst_of_three_pods() -> None:
    """Each of three pods needs most of one of two zones. The third is rejected before the kubelet has any of them."""
    ledger = reported(fresh())
    first, second, third = (ledger.assume(pod(name), "n1", 1.0) for name in "abc")
    assert [share.cpus for verdict in (first, second) for share in verdict.assignments] == [0b111111, 0b111111 << 8]
    assert (third.admitted, third.reason) == (False, "TopologyAffinityError")
    assert ledger.counters().assumed == 2


def test_report_is_stale_once_it_lacks_a_long_running_pod() -> None:
    """Pods that no kubelet has started do not count, and nodes without a report are not stale."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.add_pod(bound_pod(pod("a"), "n1"), 1.0)
    assert not ledger.is_stale("n1", 99.0, 30.0)
    ledger.add_pod(bound_pod(pod("a"), "n1", started=2.0), 2.0)
    assert [ledger.is_stale("n1", at, 30.0) for at in (2.0, 32.0, 32.1)] == [False, False, True]
    kubelet.decide(pod("a"))
    ledger.update_report(kubelet.report(), 33.0)
    assert not ledger.is_stale("n1", 99.0, 30.0)
    ledger.add_pod(bound_pod(pod("b"), "n2", started=2.0), 2.0)
    assert not ledger.is_stale("n2", 99.0, 30.0)
    assert not ledger.is_stale("unknown", 99.0, 30.0)


def test_a_polled_report_may_come_late() -> None:
    """Neither an agent that reports once a minute nor a fingerprint of unknown pods makes a node stale."""
    for kubelet, is_polled in ((fresh(), True), (fresh(()), True), (fresh((ALL, EXCLUSIVE), hidden=True), False)):
        ledger = Ledger()
        ledger.update_report(kubelet.report()._replace(is_polled=is_polled), 0.0)
        ledger.add_pod(bound_pod(pod("a"), "n1", started=2.0), 2.0)
        kubelet.decide(pod("a"))
        assert not any(ledger.is_stale("n1", float(at), 60.0) for at in range(2, 153))
        assert ledger.is_stale("n1", 152.1, 60.0)
        ledger.update_report(kubelet.report()._replace(is_polled=is_polled), 160.0)
        ledger.tick(160.0)
        assert not ledger.is_stale("n1", 999.0, 60.0)


@pytest.mark.parametrize("error", [-3600.0, 3600.0])
def test_clocks_of_nodes_make_no_node_stale(error: float) -> None:
    """Staleness counts from the time at which the ledger observed the start, by the ledger's clock."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.add_pod(bound_pod(pod("a"), "n1", started=2.0 + error), 2.0)
    assert not ledger.is_stale("n1", 62.0, 60.0)
    assert ledger.is_stale("n1", 62.1, 60.0)


def test_outdated_events_make_every_report_stale() -> None:
    """When events arrive again, each node counts as changed."""
    ledger = reported(fresh())
    assert ledger.changed_nodes() == {"n1"}
    ledger.set_outdated(outdated=True)
    assert ledger.is_stale("n1", 1.0, 60.0)
    assert not ledger.is_stale("unknown", 1.0, 60.0)
    assert ledger.changed_nodes() == frozenset()
    ledger.set_outdated(outdated=False)
    assert not ledger.is_stale("n1", 1.0, 60.0)
    assert ledger.changed_nodes() == {"n1"}


def test_pod_is_assumed_once() -> None:
    """A pod is not assumed again on the same node and has the same verdict, even after it is bound."""
    ledger = reported(fresh())
    verdict = ledger.assume(pod("a"), "n1", 1.0)
    assert ledger.assume(pod("a"), "n1", 2.0) is verdict
    ledger.add_pod(bound_pod(pod("a"), "n1"), 3.0)
    assert ledger.assume(pod("a"), "n1", 4.0) is verdict
    assert ledger.counters().assumed_total == len(ledger.assumed_pods("n1")) == 1


def test_assumed_pod_moves_to_another_node() -> None:
    """The pod moves to another node that admits it, but not to one that rejects it."""
    ledger = reported(fresh())
    ledger.update_report(node_report("n2", idle_node(KIND), [], 1), 0.0)
    for name in "ab":
        ledger.assume(pod(name), "n2", 1.0)
    ledger.assume(pod("c"), "n1", 1.0)
    assert not ledger.assume(pod("c"), "n2", 2.0).admitted
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["c"]
    assert ledger.assume(pod("a"), "n1", 3.0).admitted
    assert [[entry.name for entry in ledger.assumed_pods(node)] for node in ("n1", "n2")] == [["c", "a"], ["b"]]


def test_pod_bound_to_another_node() -> None:
    """A pod that is bound to a node other than the assumed one counts there, and cannot be assumed any more."""
    ledger = reported(fresh())
    ledger.update_report(node_report("n2", idle_node(KIND), [], 1), 0.0)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n2"), 2.0)
    assert [len(ledger.assumed_pods(node)) for node in ("n1", "n2")] == [0, 1]
    assert ledger.assume(pod("a"), "n1", 3.0).reason == BOUND
    assert ledger.counters().forgotten == 1


def test_pod_bound_by_others_is_assumed() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.add_pod(bound_pod(pod("a"), "n1"), 1.0)
    kubelet.decide(pod("a"))
    assert ledger.state("n1") == kubelet.state
    assert [entry.predicted for entry in ledger.assumed_pods("n1")] == [None]


def test_rejection_in_another_order() -> None:
    """A pod that needs the GPU's zone is rejected while a pod that fits both zones may arrive first."""
    kind = node_kind(SINGLE)
    state = idle_node(kind)._replace(device_free=(1, 0), free_cpus=0b11111111_00111111)
    ledger = Ledger()
    ledger.update_report(node_report("n1", state, [], 1), 0.0)
    assert ledger.assume(pod("a", pod_shape((7, 0))), "n1", 1.0).assignments[0].cpus == 0b1111111_00000000
    assert ledger.assume(pod("b", pod_shape((2, 1))), "n1", 1.0).admitted, (
        "the two pods use different zones in any order"
    )
    ledger.forget("uid-a", 2.0)
    ledger.forget("uid-b", 2.0)
    ledger.assume(pod("c", pod_shape((4, 1))), "n1", 3.0)
    rejection = ledger.assume(pod("d", pod_shape((4, 0))), "n1", 3.0)
    assert (rejection.reason, rejection.admitted) == (BLOCKED_BY_ASSUMED, False), (
        "d before c would use the CPUs beside the GPU"
    )
    assert "another order" in rejection.message


def test_too_many_orders() -> None:
    """If different assumed pods may arrive in too many orders, the node admits no pod until the next report."""
    kubelet = Kubelet("n1", idle_node(node_kind(SINGLE, zones=4, cpus=32)))
    ledger = reported(kubelet)
    shapes = [pod_shape((cpus, 0)) for cpus in range(7, 16)]
    verdicts = [ledger.assume(pod(f"p{index}", shape), "n1", 1.0) for index, shape in enumerate(shapes)]
    admitted = [verdict.admitted for verdict in verdicts].index(False)
    assert admitted >= 4
    assert verdicts[admitted].reason == BLOCKED_BY_ASSUMED
    assert verdicts[admitted].message == f"the node's {admitted + 1} assumed pods may arrive in too many orders"
    for index, shape in enumerate(shapes[:admitted]):
        kubelet.decide(pod(f"p{index}", shape))
    ledger.update_report(kubelet.report(), 2.0)
    assert ledger.assume(pod("next", shapes[admitted]), "n1", 3.0).admitted


def test_equal_pods_have_one_order() -> None:
    ledger = Ledger()
    ledger.update_report(node_report("n1", idle_node(node_kind(SINGLE, cpus=64)), [], 1), 0.0)
    assert all(ledger.assume(pod(f"p{index}", pod_shape((1, 0))), "n1", 1.0).admitted for index in range(100))


def test_pod_without_resources_is_not_assumed() -> None:
    """Such a pod is admitted even by a full node, and blocks no other pods."""
    ledger = reported(fresh())
    before = ledger.state("n1")
    assert all(ledger.assume(pod(f"s{index}", SHARED), "n1", 1.0).admitted for index in range(10))
    assert (ledger.state("n1"), ledger.assumed_pods("n1")) == (before, ())


def test_assumed_pods_are_forgotten_or_expire() -> None:
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
    assert (counters.assumed_total, counters.forgotten, counters.expired, counters.assumed) == (2, 1, 1, 0)


def test_assumed_pod_is_held_beyond_the_assume_timeout() -> None:
    ledger = reported(fresh())
    ledger.assume(pod("a"), "n1", 10.0)
    ledger.hold("uid-a", 500.0)
    ledger.tick(499.0)
    assert ledger.node_of("uid-a") == "n1"
    ledger.tick(500.0)
    assert ledger.node_of("uid-a") is None


def test_a_hold_shortens_no_timeout() -> None:
    ledger = reported(fresh())
    ledger.assume(pod("a"), "n1", 10.0)
    ledger.hold("uid-a", 20.0)
    ledger.tick(129.0)
    assert ledger.node_of("uid-a") == "n1"


def test_bound_pod_is_not_forgotten_and_does_not_expire() -> None:
    ledger = reported(fresh())
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n1"), 2.0)
    ledger.forget("uid-a", 3.0)
    ledger.tick(10_000.0)
    assert len(ledger.assumed_pods("n1")) == 1


def test_pod_deleted_before_it_is_covered() -> None:
    """The pod leaves the ledger at once. A late report may still contain it, until another report does not."""
    kubelet = fresh()
    ledger = reported(kubelet)
    before = ledger.state("n1")
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n1"), 2.0)
    ledger.remove_pod("uid-a", 3.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), before)
    kubelet.decide(pod("a"))
    ledger.update_report(kubelet.report(), 4.0)
    assert ledger.state("n1") == kubelet.state != before
    kubelet.end_pod("uid-a")
    ledger.update_report(kubelet.report(), 5.0)
    assert ledger.state("n1") == before


def test_the_resources_of_a_deleted_pod_are_free_for_the_next_pod() -> None:
    """No report contains the pod. Its kubelet may be stopping it, but frees its resources before it decides."""
    kubelet = fresh()
    ledger = reported(kubelet)
    for name in "ab":
        assert ledger.assume(pod(name), "n1", 1.0).admitted
        ledger.add_pod(bound_pod(pod(name), "n1"), 2.0)
        kubelet.decide(pod(name))
    assert not ledger.assume(pod("c"), "n1", 3.0).admitted
    ledger.remove_pod("uid-a", 4.0)
    assert ledger.assume(pod("c"), "n1", 4.0).admitted
    kubelet.end_pod("uid-a")
    assert kubelet.decide(pod("c")).admitted


def test_deleted_unbound_pod_is_forgotten() -> None:
    ledger = reported(fresh())
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.remove_pod("uid-a", 2.0)
    assert (ledger.assumed_pods("n1"), ledger.counters().forgotten) == ((), 1)


def test_misprediction() -> None:
    """The pod leaves the ledger, the misprediction has all inputs, and the node is in backoff for longer each time."""
    ledger = reported(fresh())
    before = ledger.state("n1")
    at, waits = 1.0, list[float]()
    for attempt in range(8):
        verdict = ledger.assume(pod(f"a{attempt}"), "n1", at)
        assert verdict.admitted
        misprediction = ledger.reject_pod(
            f"uid-a{attempt}", "TopologyAffinityError", "Resources cannot be allocated", at
        )
        assert misprediction is not None
        assert (misprediction.state, misprediction.assumed_before, misprediction.predicted) == (before, (), verdict)
        assert ledger.state("n1") == before
        rejection = ledger.assume(pod("b"), "n1", at)
        assert rejection.reason == NODE_BACKOFF
        assert ledger.assume(pod(f"other{attempt}", pod_shape((1, 0))), "n1", at).admitted
        ledger.forget(f"uid-other{attempt}", at)
        waits.append(float(rejection.message.split()[-2]))
        at += waits[-1]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
    assert ledger.counters().mispredicted == (("TopologyAffinityError", 8),)


def test_covered_pod_resets_the_backoff() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.assume(pod("b"), "n1", 1.0)
    ledger.reject_pod("uid-a", "SMTAlignmentError", "", 2.0)
    kubelet.decide(pod("b"))
    ledger.update_report(kubelet.report(), 3.0)
    assert ledger.assume(pod("c"), "n1", 4.0).admitted


def test_rejected_pod_of_others_is_no_misprediction() -> None:
    ledger = reported(fresh())
    ledger.add_pod(bound_pod(pod("a"), "n1"), 1.0)
    assert ledger.reject_pod("uid-a", "OutOfcpu", "", 2.0) is None
    assert ledger.reject_pod("unknown", "OutOfpods", "", 2.0) is None
    assert (ledger.counters().rejected, ledger.counters().mispredicted) == ((("OutOfcpu", 1), ("OutOfpods", 1)), ())
    assert ledger.assume(pod("b"), "n1", 3.0).admitted


def test_node_without_report() -> None:
    """Such a node rejects pods unless the policy allows it; the pod is then subtracted from the first report."""
    kubelet = fresh()
    ledger = Ledger()
    assert ledger.assume(pod("a"), "n1", 1.0).reason == NO_REPORT
    verdict = ledger.assume(pod("a"), "n1", 1.0, allow_unreported=True)
    assert (verdict.admitted, verdict.uncertain) == (True, ("the node has no report",))
    assert ledger.state("n1") is None
    ledger.update_report(kubelet.report(), 2.0)
    kubelet.decide(pod("a"))
    assert ledger.state("n1") == kubelet.state
    assert ledger.reject_pod("uid-a", "TopologyAffinityError", "", 3.0) is None, "there was no prediction"


def test_report_is_removed_and_returns() -> None:
    """Pods remain in the ledger meanwhile, and versions may start again."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.remove_report("n1", 2.0)
    assert (ledger.state("n1"), ledger.assume(pod("b"), "n1", 3.0).reason) == (None, NO_REPORT)
    kubelet.reports = 0
    ledger.update_report(kubelet.report(), 4.0)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    ledger.remove_report("unknown", 5.0)


def test_assumed_pods_no_longer_fit_on_a_report() -> None:
    """Nothing counts as free on the node until the next report, so no more pods are admitted."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n1"), 1.0)
    kubelet.state = kubelet.state._replace(free_cpus=0b1111)
    ledger.update_report(kubelet.report(), 2.0)
    state = ledger.state("n1")
    assert state is not None
    assert (state.free_cpus, state.device_free) == (0, (0, 0))
    assert ledger.assume(pod("b", pod_shape((1, 0))), "n1", 3.0).reason == BLOCKED_BY_ASSUMED
    assert ledger.assume(pod("s", SHARED), "n1", 3.0).admitted
    assert ledger.counters().blocked == 1
    ledger.reject_pod("uid-a", "TopologyAffinityError", "", 4.0)
    assert (ledger.state("n1"), ledger.counters().blocked) == (kubelet.state, 0)


def test_shape_changes() -> None:
    ledger = reported(fresh())
    ledger.add_pod(bound_pod(pod("a"), "n1"), 1.0)
    small = ledger.add_pod(bound_pod(pod("a", pod_shape((1, 0))), "n1"), 2.0)
    assert small is None
    state = ledger.state("n1")
    assert state is not None
    assert state.free_cpus == 0xFFFE


def test_changed_nodes() -> None:
    """A node is returned once per change of its state, after any number of events, and not without a change."""
    kubelet = fresh()
    ledger = reported(kubelet)
    assert ledger.changed_nodes() == {"n1"}
    assert ledger.changed_nodes() == frozenset()
    ledger.assume(pod("a"), "n1", 1.0)
    assert ledger.changed_nodes() == {"n1"}
    ledger.add_pod(bound_pod(pod("a"), "n1"), 2.0)
    kubelet.decide(pod("a"))
    ledger.update_report(kubelet.report(), 3.0)
    assert ledger.changed_nodes() == frozenset(), "the prediction was right"
    ledger.assume(pod("b"), "n1", 4.0)
    ledger.forget("uid-b", 5.0)
    assert ledger.changed_nodes() == frozenset()
    ledger.remove_report("n1", 6.0)
    assert ledger.changed_nodes() == {"n1"}
    ledger.remove_pod("uid-a", 7.0)
    ledger.tick(1000.0)
    assert (ledger.changed_nodes(), ledger.state("n1"), ledger.assumed_pods("n1")) == (frozenset(), None, ())


def test_events_of_unknown_pods() -> None:
    ledger = Ledger()
    ledger.remove_pod("unknown", 1.0)
    ledger.forget("unknown", 1.0)
    ledger.tick(2.0)
    assert (ledger.changed_nodes(), ledger.assumed_pods("n1"), ledger.state("n1")) == (frozenset(), (), None)
