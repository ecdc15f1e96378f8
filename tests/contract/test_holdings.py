"""The holdings that the agent publishes are the resources that the end of a pod frees, as the next report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from support.kubelet_reports import CONFIG, NodeHistory, node_histories
from support.ledger_kubelets import SHARED
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.nrt.holdings import UNATTRIBUTED, holdings_key, read_holdings
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.types import BoundPod
from zonewise_scheduler.nodes.preemption.release import memory_zones, release

if TYPE_CHECKING:
    from zonewise_scheduler.admission.report.node_report import NodeReport

KINDS = KindInterner()


def report_of(history: NodeHistory) -> NodeReport:
    usage = node_usage(history.machine, history.report())
    assert isinstance(usage, Usage)
    return read_nrt(machine_to_nrt(history.machine, "n", usage, CONFIG), KINDS)


def draw_ending(history: NodeHistory, data: st.DataObject) -> set[str]:
    """Draw the UIDs of pods that end next."""
    alive = [record for record in history.records if record.alive]
    # CPUs identify a pod's entry in the checkpoints; an entry without CPUs may belong to any pod, also an ended one
    assume(all(any(container.cpus for container in record.pod.containers) for record in alive))
    return set(data.draw(st.lists(st.sampled_from([record.uid for record in alive]), unique=True)) if alive else [])


def after_ends(history: NodeHistory, ending: set[str]) -> NodeHistory:
    return history._replace(
        records=tuple(
            record._replace(alive=False, reconciled=True) if record.uid in ending else record
            for record in history.records
        )
    )


@given(node_histories(), st.data())
def test_the_end_of_pods_frees_their_holdings(history: NodeHistory, data: st.DataObject) -> None:
    """A report and the holdings of some pods determine the report's state after these pods have ended."""
    alive = [record for record in history.records if record.alive]
    ending = draw_ending(history, data)
    before, after = report_of(history), report_of(after_ends(history, ending))
    assert before.holdings is not None
    assert before.state is not None
    held = read_holdings(before.holdings)
    keys = {record.uid: holdings_key(record.pod.namespace, record.pod.name) for record in alive}
    ended = [held.pop(keys[uid]) for uid in sorted(ending) if keys[uid] in held]
    staying = 0
    for each in held.values():
        staying |= memory_zones(each)
    assert release(before.state, ended, staying) == after.state


@given(node_histories(), st.data())
def test_the_ledger_predicts_the_report_after_the_end_of_pods(history: NodeHistory, data: st.DataObject) -> None:
    """The API shows ends while the agent is down: the ledger has the state that the next report will have."""
    ending = draw_ending(history, data)
    ledger = Ledger()
    for record in history.records:
        if record.alive:
            ledger.add_pod(BoundPod(record.uid, record.pod.namespace, record.pod.name, SHARED, "n", 1.0, 1.0), 1.0)
    ledger.update_report(report_of(history), 2.0, published=2.0)
    for uid in sorted(ending):
        ledger.remove_pod(uid, 3.0)
    assert ledger.state("n") == report_of(after_ends(history, ending)).state


@given(node_histories())
def test_all_holdings_have_one_owner(history: NodeHistory) -> None:
    """Every key except that of the leftovers belongs to a listed pod; no CPU has two owners."""
    report = report_of(history)
    held = read_holdings(report.holdings or ())
    known = {holdings_key(record.pod.namespace, record.pod.name) for record in history.records if record.alive}
    assert held.keys() <= known | {UNATTRIBUTED}
    owned = 0
    for each in held.values():
        assert not owned & each.cpus
        owned |= each.cpus
