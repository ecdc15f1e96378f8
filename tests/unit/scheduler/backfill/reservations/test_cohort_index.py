"""The trees of queues: which queues share quota."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.planner_stories import make_workload, queue
from zonewise_scheduler.backfill.reservations.cohort_index import CohortIndex
from zonewise_scheduler.quota.api.queue_types import Cohort
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.topology.types import TopologyAssignment

SPECS = [
    queue("a", 4, cohort="team"),
    queue("b", 4, cohort="group"),
    queue("c", 4, cohort="other"),
    queue("team", 4),
    queue("alone", 4)._replace(stop_policy="Hold"),
    queue("held", 4, cohort="group")._replace(stop_policy="Hold"),
]
INDEX = CohortIndex(Snapshot(SPECS, [Cohort("group", parent_name="team")]))


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("a", {"a", "b", "held"}),
        ("b", {"a", "b", "held"}),
        ("held", {"a", "b", "held"}),
        ("c", {"c"}),
        ("team", {"team"}),
        ("alone", {"alone"}),
    ],
)
def test_queues_of_one_tree_share_quota(name: str, tree: set[str]) -> None:
    """Held queues share it too, but not a queue named like a cohort. A workload placed on nodes affects all queues."""
    assert set(INDEX.queues_sharing_quota(name)) == tree
    pod_set = PodSetAdmission("main", {"cpu": "all"}, {"cpu": 2}, 1)
    workload = make_workload("one", 2)
    placed = pod_set._replace(topology_assignment=TopologyAssignment(("host",), ()))
    for pod_sets, affected in (
        ((), tree),
        ((pod_set,), tree),
        ((pod_set, placed), {spec.name for spec in SPECS}),
    ):
        admitted = replace(workload, admission=Admission(name, pod_sets))
        assert set(INDEX.queues_affected_by(admitted)) == affected
    assert set(INDEX.queues_affected_by(workload)) == set()
    assert {spec.name for spec in SPECS if INDEX.share_quota(name, spec.name)} == tree
