"""Examples of reports that cover the pods of a node."""

from __future__ import annotations

import pytest

from support.ledger_kubelets import (
    ALL,
    EXCLUSIVE,
    GPU,
    MOST,
    SHARED,
    bound_pod,
    fresh,
    pod,
    pod_shape,
    pod_times,
    reported,
)
from zonewise_common.nrt.holdings import holdings_key
from zonewise_scheduler.extender.objects.start_times import read_start_times
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.node_ledger import ADMISSION_TIME


def test_report_from_before_an_assumed_pod() -> None:
    """A report from before a pod leaves the pod assumed; a report with the pod covers it."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n1"), 2.0)
    assumed = ledger.state("n1")
    ledger.update_report(kubelet.report(), 3.0)
    assert ledger.state("n1") == assumed
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    kubelet.decide(pod("a"))
    ledger.update_report(kubelet.report(), 4.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)
    assert ledger.counters().covered == 1


def test_report_from_the_middle_of_an_admission() -> None:
    """The kubelet lists a pod before it allocates. A report from between leaves the pod assumed, with all its CPUs."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n1"), 2.0)
    assumed = ledger.state("n1")
    idle = kubelet.report()
    kubelet.decide(pod("a"))
    admitted = kubelet.report()
    for held in ("", f"{holdings_key('jobs', 'a')}:0-2"):  # none of the pod's six CPUs, or three of them
        partial = admitted._replace(state=idle.state, version=f"{held}-", holdings=((0, held), (1, "")))
        ledger.update_report(partial, 3.0)
        assert ledger.state("n1") == assumed
        assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    ledger.update_report(admitted._replace(holdings=((0, f"{holdings_key('jobs', 'a')}:0-5"), (1, ""))), 4.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_report_between_cpus_and_devices() -> None:
    """A report that shows a pod's CPUs but not yet its device leaves the pod assumed."""
    kubelet = fresh()
    ledger = reported(kubelet)
    shape = pod_shape((2, 1))
    ledger.assume(pod("a", shape), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a", shape), "n1"), 2.0)
    kubelet.decide(pod("a", shape))
    key = holdings_key("jobs", "a")
    for version, held, names in (("7-", f"{key}:0-1", ["a"]), ("8-", f"{key}:0-1|{GPU}=1", [])):
        ledger.update_report(kubelet.report()._replace(version=version, holdings=((0, held), (1, ""))), 3.0)
        assert [entry.name for entry in ledger.assumed_pods("n1")] == names


def test_a_pod_without_holdings_is_covered_soon_after_its_start() -> None:
    """Excluded pods have no holdings: a report covers such a pod when its admission must be over."""
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("a"), "n1", started=2.0), 2.0)
    kubelet.decide(pod("a"))
    ledger.update_report(kubelet.report()._replace(holdings=((0, ""), (1, ""))), 3.0)
    ledger.tick(2.0 + ADMISSION_TIME - 0.1)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    ledger.tick(2.0 + ADMISSION_TIME)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


@pytest.mark.parametrize("node_error", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize("ledger_error", [-3600.0, 0.0, 3600.0])
def test_no_clock_makes_an_old_report_cover_a_new_pod(node_error: float, ledger_error: float) -> None:
    """Whichever clock is wrong, a report from before a pod's start does not cover the pod, and a later report does."""
    kubelet = fresh(())
    before = kubelet.report()
    ledger = Ledger()
    ledger.update_report(before, 5000.0 + ledger_error, published=5000.0)
    kubelet.decide(pod("a"))
    times = read_start_times(pod_times(5010.0, 5011.0 + node_error, 5012.0))
    ledger.add_pod(bound_pod(pod("a"), "n1", *times), 5012.0 + ledger_error)
    ledger.tick(9000.0 + ledger_error)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.update_report(kubelet.report(), 9000.0 + ledger_error, published=9000.0)
    assert ledger.assumed_pods("n1") == ()


@pytest.mark.parametrize("node_error", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize("ledger_error", [-3600.0, 0.0, 3600.0])
def test_a_new_ledger_finds_old_pods_covered(node_error: float, ledger_error: float) -> None:
    """After a restart, the stamps show that a pod had started long before its report, so the ledger does not wait."""
    kubelet = fresh(())
    kubelet.decide(pod("a"))
    times = read_start_times(pod_times(5000.0, 5001.0 + node_error, 5002.0))
    ledger = Ledger()
    ledger.add_pod(bound_pod(pod("a"), "n1", *times), 9000.0 + ledger_error)
    ledger.update_report(kubelet.report(), 9000.0 + ledger_error, published=8999.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_report_covers_a_pod_before_the_api_shows_it_bound() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    kubelet.decide(pod("a"))
    ledger.update_report(kubelet.report(), 2.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)
    ledger.add_pod(bound_pod(pod("a"), "n1", 1.5), 3.0)
    ledger.tick(1000.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_older_and_equal_reports_change_nothing() -> None:
    kubelet = fresh()
    ledger = reported(kubelet)
    old = kubelet.report()
    kubelet.decide(pod("a"))
    ledger.add_pod(bound_pod(pod("a"), "n1", 1.0), 1.0)
    new = kubelet.report()
    for report in (new, old, new):
        ledger.update_report(report, 2.0)
        assert ledger.state("n1") == kubelet.state


def test_a_restored_report_replaces_a_newer_one() -> None:
    """If the source states that a report replaces the current one, a lower or an equal version is accepted."""
    kubelet = fresh()
    first = kubelet.report()
    ledger = reported(kubelet)
    kubelet.decide(pod("a"))
    current = kubelet.report()
    ledger.update_report(current, 1.0)
    ledger.update_report(first, 2.0, replaces="1")
    assert ledger.state("n1") == current.state, "it replaces another one"
    for restored in (first, current._replace(version="1"), first._replace(version="1")):
        ledger.update_report(restored, 3.0, replaces=current.version)
        assert ledger.state("n1") == restored.state
        current = restored
    kubelet.end_pod("uid-a")
    ledger.update_report(kubelet.report()._replace(version="2"), 4.0, replaces="1")
    assert ledger.state("n1") == kubelet.state


def test_pod_that_later_reports_lack() -> None:
    """A pod that reports no longer contain is assumed until the API confirms its end, and then leaves at once."""
    kubelet = fresh()
    kubelet.decide(pod("a"))
    ledger = Ledger()
    ledger.add_pod(bound_pod(pod("a"), "n1", 0.0), 0.0)
    ledger.update_report(kubelet.report(), 1.0)
    assert ledger.assumed_pods("n1") == ()
    kubelet.end_pod("uid-a")
    ledger.update_report(kubelet.report(), 2.0)
    assert [entry.name for entry in ledger.assumed_pods("n1")] == ["a"]
    ledger.remove_pod("uid-a", 2.5)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_successor_with_the_same_name() -> None:
    """A report that may be about the predecessor covers the successor only after some time, or with another report."""
    kubelet = fresh()
    kubelet.decide(pod("web-0", uid="old"))
    ledger = Ledger()
    ledger.add_pod(bound_pod(pod("web-0", uid="old"), "n1", 0.0), 0.0)
    ledger.update_report(kubelet.report(), 1.0)
    late = kubelet.report()
    kubelet.end_pod("old")
    ledger.remove_pod("old", 2.0)
    ledger.assume(pod("web-0", uid="new"), "n1", 3.0)
    ledger.add_pod(bound_pod(pod("web-0", uid="new"), "n1"), 3.0)
    ledger.update_report(late, 4.0)
    assert [entry.uid for entry in ledger.assumed_pods("n1")] == ["new"]
    kubelet.decide(pod("web-0", uid="new"))
    ledger.update_report(kubelet.report(), 5.0)
    assert [entry.uid for entry in ledger.assumed_pods("n1")] == ["new"], "this report equals a late one"
    ledger.tick(92.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


@pytest.mark.parametrize("report_first", [True, False])
def test_report_published_after_the_admission_of_a_successor(report_first: bool) -> None:
    """Such a report cannot be about the predecessor, so the successor is no longer subtracted."""
    kubelet = fresh()
    kubelet.decide(pod("web-0", uid="old"))
    ledger = Ledger()
    ledger.add_pod(bound_pod(pod("web-0", uid="old"), "n1", 0.0), 0.0)
    ledger.update_report(kubelet.report(), 1.0, published=1.0)
    kubelet.end_pod("old")
    ledger.remove_pod("old", 2.0)
    ledger.assume(pod("web-0", uid="new"), "n1", 3.0)
    kubelet.decide(pod("web-0", uid="new"))
    ledger.add_pod(bound_pod(pod("web-0", uid="new"), "n1"), 3.0)
    confirmed = bound_pod(pod("web-0", uid="new"), "n1", 3.0, 4.0)
    if not report_first:
        ledger.add_pod(confirmed, 4.5)
        ledger.update_report(kubelet.report(), 4.6, published=4.0)
        assert [entry.uid for entry in ledger.assumed_pods("n1")] == ["new"], "the same second"
    ledger.update_report(kubelet.report(), 5.0, published=5.0)
    if report_first:
        assert [entry.uid for entry in ledger.assumed_pods("n1")] == ["new"]
        ledger.add_pod(confirmed, 5.5)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


@pytest.mark.parametrize(("methods", "hidden"), [((), False), ((ALL, EXCLUSIVE), True)])
def test_reports_without_a_matching_fingerprint(methods: tuple[str, ...], hidden: bool) -> None:
    """Without a fingerprint of known pods, a pod is covered report_lag after its kubelet started it."""
    kubelet = fresh(methods, hidden=hidden)
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    kubelet.decide(pod("a"))
    ledger.add_pod(bound_pod(pod("a"), "n1", 2.0), 2.0)
    ledger.tick(1000.0)
    assert len(ledger.assumed_pods("n1")) == 1, "no report since"
    ledger.update_report(kubelet.report(), 1001.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)
    ledger.assume(pod("b"), "n1", 1002.0)
    kubelet.decide(pod("b"))
    ledger.add_pod(bound_pod(pod("b"), "n1", 1002.0), 1002.0)
    ledger.update_report(kubelet.report(), 1003.0)
    ledger.tick(1091.0)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.tick(1092.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_report_from_before_the_ledger() -> None:
    """The report arrived late, but was written before a pod started: the time of writing decides."""
    kubelet = fresh(())
    report = kubelet.report()
    kubelet.decide(pod("a"))
    ledger = Ledger()
    ledger.add_pod(bound_pod(pod("a"), "n1", 100.0), 1000.0)
    ledger.update_report(report, 1000.0, published=90.0)
    ledger.tick(5000.0)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.update_report(kubelet.report(), 5001.0, published=101.0)
    assert ledger.assumed_pods("n1") == ()


def test_pods_added_after_their_report() -> None:
    """Pods of other schedulers that a report contains before the API shows them are covered once the API does."""
    kubelet = fresh()
    for name in "ab":
        kubelet.decide(pod(name, pod_shape((3, 0))))
    ledger = reported(kubelet)
    ledger.add_pod(bound_pod(pod("a", pod_shape((3, 0))), "n1", 0.5), 1.0)
    assert len(ledger.assumed_pods("n1")) == 1
    ledger.add_pod(bound_pod(pod("b", pod_shape((3, 0))), "n1", 0.5), 1.0)
    assert (ledger.assumed_pods("n1"), ledger.state("n1")) == ((), kubelet.state)


def test_fingerprint_of_exclusive_resources() -> None:
    """If unknown pods spoil the other fingerprint, the one of pods with exclusive resources suffices."""
    kubelet = fresh((EXCLUSIVE,))
    ledger = reported(kubelet)
    ledger.assume(pod("a"), "n1", 1.0)
    ledger.add_pod(bound_pod(pod("s", SHARED), "n1"), 1.0)
    for name, shape in (("a", MOST), ("s", SHARED), ("unknown", SHARED)):
        kubelet.decide(pod(name, shape))
    ledger.update_report(kubelet.report(), 2.0)
    assert ledger.assumed_pods("n1") == ()
