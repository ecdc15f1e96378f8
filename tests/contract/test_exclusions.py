"""Excluded pods, from the agent's report to the scheduler's ledger: the scheduler considers all pods of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import node_histories
from support.ledger_kubelets import SHARED, pod_shape
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.node_ledger import ADMISSION_TIME
from zonewise_scheduler.nodes.assumed.types import BoundPod

if TYPE_CHECKING:
    from support.kubelet_reports import NodeHistory
    from zonewise_scheduler.admission.report.node_report import NodeReport

EXCLUDED = st.sets(st.sampled_from([f"p{number}" for number in range(7)]))


def published(history: NodeHistory, excluded: set[str]) -> NodeReport:
    """Return the report that an agent publishes, as the scheduler reads it."""
    report = history.report()
    usage = node_usage(history.machine, report, excluded=lambda pod: pod.name in excluded)
    assert not isinstance(usage, KubeletNotReady)
    return read_nrt(machine_to_nrt(history.machine, "node", usage, report.config), KindInterner())


@given(node_histories(), EXCLUDED)
def test_admission_does_not_depend_on_exclusions(history: NodeHistory, excluded: set[str]) -> None:
    """The kubelet decides in the same way, whatever its agent hides; only the attribution to pods differs."""
    assert published(history, excluded)._replace(holdings=None) == published(history, set())._replace(holdings=None)


@given(node_histories(), EXCLUDED)
def test_the_ledger_finds_excluded_pods_in_the_report(history: NodeHistory, excluded: set[str]) -> None:
    """The report covers each pod in the kubelet's List: no pod is subtracted twice, and no node becomes stale.

    The report contains nothing about an excluded pod. The ledger therefore treats such a pod as in admission for the
    time that an admission may take.
    """
    ledger = Ledger()
    for pod in history.report().pods:
        cpus = sum(len(container.cpus) for container in pod.containers)
        shape = pod_shape((cpus, 0), gib=0) if cpus else SHARED  # otherwise, the pod would still be in admission
        bound = BoundPod(f"uid-{pod.name}", pod.namespace, pod.name, shape, "node", started=0.0)
        ledger.add_pod(bound, 0.0)
    report = published(history, excluded)
    ledger.update_report(report, 2 * ADMISSION_TIME)
    assert ledger.assumed_pods("node") == ()
    assert ledger.state("node") == report.state
    assert not ledger.is_stale("node", 1000.0, 60.0)
