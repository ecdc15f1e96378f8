"""The heads of a cycle."""

from __future__ import annotations

import pytest

from support.quota_strategies import pending_workload
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.cycle.entry import Decision, Head
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT, AssignmentClusterQueueState
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.heads import matches_namespace, pop_heads
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

QUEUE = ClusterQueue("q")


def make_pending(spec: ClusterQueue) -> PendingWorkloads:
    pending = PendingWorkloads(spec)
    for name, priority, created in (("w0", 0, 3.0), ("w1", 2, 5.0), ("w2", 2, 4.0)):
        pending.push_or_update(pending_workload(name, 1, priority, created))
    return pending


def test_each_active_queue_has_one_head() -> None:
    """A head whose namespace does not match is marked inadmissible."""
    specs = [
        QUEUE,
        QUEUE._replace(name="held", stop_policy="Hold"),
        QUEUE._replace(name="no-namespace", namespace_selector=None),
    ]
    queues = [make_pending(spec) for spec in [*specs, QUEUE._replace(name="unknown")]]
    heads = pop_heads(queues, Snapshot(specs), {})
    assert [(head.cluster_queue, head.workload.name, head.inadmissible_reason) for head in heads] == [
        ("q", "w2", ""),
        ("no-namespace", "w2", "namespace"),
    ]
    assert matches_namespace(QUEUE, None)


@pytest.mark.parametrize(("scanned", "goes_on"), [(-1, True), (-2, False)])
def test_without_a_number_the_cycle_is_0(scanned: int, *, goes_on: bool) -> None:
    """An earlier scan of flavors continues, although the cluster has changed."""
    state = AssignmentClusterQueueState({"main": {"cpu": 0}}, scanned)
    head, queue = Head(pending_workload("w", 1), QUEUE.name), PendingWorkloads(QUEUE)
    queue.requeue(Decision(head, "waiting", head.workload, last_assignment=state))
    queue.queue_inadmissible_workloads()
    heads = [queue.copy().pop({}), *pop_heads([queue.copy()], Snapshot([QUEUE]))]
    assert heads == [head._replace(last_assignment=state if goes_on else NO_LAST_ASSIGNMENT)] * 2


@pytest.mark.parametrize(
    ("labels", "matches"),
    [(None, True), ({}, False), ({"team": "a"}, True), ({"team": "b"}, False), ({"team": "a", "tier": "x"}, True)],
)
def test_a_selector_applies_to_the_labels_of_the_namespace(labels: dict[str, str] | None, matches: bool) -> None:
    """Without labels every namespace matches."""
    selecting = QUEUE._replace(namespace_selector=(Requirement("team", "In", ("a",)),))
    assert matches_namespace(selecting, labels) is matches
    assert matches_namespace(QUEUE, labels)
    assert not matches_namespace(QUEUE._replace(namespace_selector=None), labels)
