"""The holdings that the agent publishes are the resources that the end of a pod frees, as the next report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from support.kubelet_reports import CONFIG, NodeHistory, node_histories
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.nrt.holdings import UNATTRIBUTED, holdings_key, read_holdings
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.preemption.release import memory_zones, release

if TYPE_CHECKING:
    from zonewise_scheduler.admission.report.node_report import NodeReport

KINDS = KindInterner()


def report_of(history: NodeHistory) -> NodeReport:
    usage = node_usage(history.machine, history.report())
    assert isinstance(usage, Usage)
    return read_nrt(machine_to_nrt(history.machine, "n", usage, CONFIG), KINDS)


@given(node_histories(), st.data())
def test_the_end_of_pods_frees_their_holdings(history: NodeHistory, data: st.DataObject) -> None:
    """A report and the holdings of some pods determine the report's state after these pods have ended."""
    alive = [record for record in history.records if record.alive]
    # CPUs identify a pod's entry in the checkpoints; an entry without CPUs could belong to any of the other pods
    known = [record.uid for record in alive if any(container.cpus for container in record.pod.containers)]
    assume(len(known) >= len(alive) - 1)
    ending = set(data.draw(st.lists(st.sampled_from(known), unique=True)) if known else [])
    before = report_of(history)
    after = report_of(
        history._replace(
            records=tuple(
                record._replace(alive=False, reconciled=True) if record.uid in ending else record
                for record in history.records
            )
        )
    )
    assert before.holdings is not None
    assert before.state is not None
    held = read_holdings(before.holdings)
    keys = {record.uid: holdings_key(record.pod.namespace, record.pod.name) for record in alive}
    ended = [held.pop(keys[uid]) for uid in sorted(ending) if keys[uid] in held]
    staying = 0
    for each in held.values():
        staying |= memory_zones(each)
    assert release(before.state, ended, staying) == after.state


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
