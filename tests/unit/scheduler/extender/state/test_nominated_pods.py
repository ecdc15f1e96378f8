"""Pods that are assumed while other pods of the node end."""

from __future__ import annotations

from support.ledger_kubelets import container, pod_shape
from support.preemption_clusters import PreemptionCluster
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.extender.placing.placer import REASONS
from zonewise_scheduler.extender.state.nominated_pods import ENDING

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
