"""Nodes that passes leave to pods which only kube-scheduler can place."""

from __future__ import annotations

import pytest

from support.extender_caches import DirectCluster, full_cluster
from support.ledger_kubelets import pod_shape
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.placing import node_claims
from zonewise_scheduler.extender.placing.node_claims import HOLD
from zonewise_scheduler.nodes.filters.constraints import Constraints

WHOLE = pod_shape((8, 0))
SPREAD = Constraints(Resource(8000, 0, 1, 0), scheduler_only=("topology spread",))


def cluster_with_room(*, priority: int = 0) -> DirectCluster:
    """Return a cluster in which a zone has become free for an old pod with topology spread, or a young plain pod.

    `priority`: of the young pod.
    """
    cluster = full_cluster()
    cluster.create("old", WHOLE, constraints=SPREAD)
    cluster.clock.advance(1)
    cluster.create("young", WHOLE, priority=priority)
    for name in ("old", "young"):
        assert cluster.filter(name).node == ""
    cluster.end("p")
    cluster.report("n")
    return cluster


def test_the_older_pod_gets_the_node() -> None:
    """The pass leaves the node to the older pod, which is requeued, until kube-scheduler has filtered it."""
    cluster = cluster_with_room()
    assert cluster.run_pass() == {}
    assert [pod.name for pod in cluster.cache.pods_to_requeue()] == ["old"]
    assert cluster.run_pass() == {}
    assert cluster.filter("old").node == "n"
    assert cluster.run_pass() == {}


def test_a_pod_of_higher_priority_does_not_wait() -> None:
    """A claim holds a node only for pods of a better rank."""
    assert cluster_with_room(priority=1).run_pass() == {"young": "n"}


def test_a_claim_ends_with_the_attempt() -> None:
    """If kube-scheduler's own filters rule the node out for the older pod, the younger one gets it at once."""
    cluster = cluster_with_room()
    assert cluster.run_pass() == {}
    cluster.cache.changed.clear()
    assert cluster.filter("old", "other").node == ""
    assert cluster.cache.changed.is_set()
    assert cluster.run_pass() == {"young": "n"}


@pytest.mark.parametrize(("seconds", "placed"), [(HOLD - 0.01, {}), (HOLD, {"young": "n"})])
def test_a_node_is_held_for_a_bounded_time(seconds: float, placed: dict[str, str]) -> None:
    """A pod that kube-scheduler does not try loses its claim."""
    cluster = cluster_with_room()
    assert cluster.run_pass() == {}
    cluster.clock.advance(seconds)
    assert cluster.run_pass() == placed


def test_a_pod_in_backoff_claims_nothing() -> None:
    """A pod that was requeued in vain claims nodes again only after its backoff."""
    cluster = cluster_with_room()
    assert [pod.name for pod in cluster.cache.pods_to_requeue()] == ["old"]
    assert cluster.filter("old", "other").node == ""
    cluster.report("n")
    cluster.cache.state.ledger.mark_changed("n")
    assert cluster.run_pass() == {"young": "n"}


def test_the_number_of_claimants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, pods of the worst ranks claim nothing."""
    monkeypatch.setattr(node_claims, "MAX_CLAIMANTS", 0)
    assert cluster_with_room().run_pass() == {"young": "n"}
