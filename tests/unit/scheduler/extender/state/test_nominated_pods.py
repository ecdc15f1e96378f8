"""Pods that are assumed while other pods of the node end."""

from __future__ import annotations

import pytest

from support.ledger_kubelets import container, pod_shape
from support.preemption_clusters import PreemptionCluster
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.extender.objects.running_pods import VictimFields
from zonewise_scheduler.extender.placing.placer import REASONS
from zonewise_scheduler.extender.state.nominated_pods import ENDING, NOMINATED
from zonewise_scheduler.extender.state.nominations import PROPOSED

STAGED = PodShape((container("stage", 2)._replace(role="init"), container("main", 6)), "Guaranteed")
"""An init container of two CPUs, whose zone the main container of six CPUs must get."""


def test_a_pod_waits_while_the_end_of_another_pod_may_let_its_kubelet_reject_it() -> None:
    """Zone 1 is free. If pod a ends first, the init container gets zone 0, in which pod b leaves too little."""
    cluster = PreemptionCluster("n")
    for name in "ab":
        cluster.run(name, pod_shape((4, 0)), "n", terminating=name == "a")
    cluster.create("staged", STAGED)
    result = cluster.filter("staged")
    assert (result.node, result.failed_nodes.messages) == ("", (REASONS[ENDING],))
    cluster.create("plain", pod_shape((6, 0)))
    assert cluster.filter("plain").node == "n", "an end cannot matter to a pod of one container"
    cluster.cache.state.forget("uid-plain")
    cluster.delete("plain")
    cluster.end("a")
    assert cluster.run_pass() == {}, "main does not fit in zone 0"
    cluster.end("b")
    assert cluster.run_pass() == {"staged": "n"}


@pytest.mark.parametrize("in_report", [True, False])
def test_no_pod_takes_the_zone_of_a_victim_that_is_ending(in_report: bool) -> None:
    """The victim leaves zone 1 to a nominated pod, before or after a report shows that the kubelet has released it."""
    cluster = PreemptionCluster("n")
    for name, size in (("a", 4), ("b", 2), ("victim", 5)):
        cluster.run(name, pod_shape((size, 0)), "n")
    high = cluster.wait("high", pod_shape((8, 0)))
    cluster.cache.state.nominated.nominations.begin(high, "n", ["uid-victim"], cluster.clock())
    cluster.observe("victim", victim=VictimFields(terminating=True), started=cluster.clock())
    if not in_report:
        cluster.kubelets["n"].end_pod("uid-victim")
        cluster.report("n")
    cluster.create("low", pod_shape((3, 0)))
    result = cluster.filter("low")
    assert (result.node, result.failed_nodes.messages) == ("", (REASONS[NOMINATED],))
    cluster.observe("victim", phase="Succeeded")
    assert cluster.run_pass() == {"high": "n"}


@pytest.mark.parametrize("event", ["expired", "nominated", "bound"])
def test_the_nodes_that_are_proposed_to_kube_scheduler_are_held(event: str) -> None:
    """kube-scheduler evicts the proposed victims of one node before its nomination of the pod can be observed."""
    cluster = PreemptionCluster("n", "m")
    for node in "nm":
        for zone in range(2):
            cluster.run(f"{node}{zone}", pod_shape((5, 0)), node)
    high = cluster.wait("high", pod_shape((8, 0)))
    cluster.create("low", pod_shape((3, 0)))
    nominated = cluster.cache.state.nominated
    nominated.nominations.propose(high, {"n": ["uid-n0"], "m": ["uid-m0"]}, cluster.clock())
    assert cluster.filter("low", "n").node == ""
    assert cluster.filter("low", "m").failed_nodes.messages == (REASONS[NOMINATED],)
    if event == "expired":
        cluster.clock.advance(PROPOSED)
    elif event == "nominated":
        nominated.begin(high, "m", ["uid-m0"], cluster.clock())
    else:
        cluster.cache.state.end_nomination(high.uid)
    cluster.cache.tick()
    [(name, node)] = cluster.run_pass().items()
    assert (name, node) == ("low", "n") or event != "nominated"
