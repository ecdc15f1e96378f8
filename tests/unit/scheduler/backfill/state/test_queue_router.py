"""Each rule that decides where a workload waits, when it must stop, and which of its changes matter."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from support.planner_stories import CPU, local, make_workload, queue
from support.tas_clusters import LEVELS, Host, flavor_topologies, job, pods_of, snapshot_of
from support.tas_clusters import preempting_queue as placed_queue
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.reservations.timeline import has_capacity
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.backfill.state.queue_router import (
    QueueConfiguration,
    QueueRouter,
    rebuild_snapshot,
    same_requirements,
    same_state,
    with_required_checks,
)
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule
from zonewise_scheduler.quota.api.workload_types import Admission, Eviction, PodSet, PodSetAdmission
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.types import StopReason
    from zonewise_scheduler.quota.api.queue_types import LocalQueue, StopPolicy
    from zonewise_scheduler.quota.api.workload_types import Workload

LOCAL_QUEUES = [local("lq", fair_weight=3.0, leads="led"), local("held", stop_policy="Hold")]


@pytest.mark.parametrize(
    ("local_queues", "key", "weight"),
    [
        (None, "ns/lq", 1.0),
        ([], "ns/lq", 1.0),
        (LOCAL_QUEUES, "ns/other", 1.0),
        (LOCAL_QUEUES, "ns/lq", 3.0),
        (LOCAL_QUEUES, "ns/held", 1.0),
        ([local("none", fair_weight=0.0)], "ns/none", 0.0),
    ],
)
def test_a_local_queue_has_its_weight_or_one(
    local_queues: Sequence[LocalQueue] | None, key: str, weight: float
) -> None:
    assert QueueRouter(local_queues).local_queue_weight(key) == weight


@pytest.mark.parametrize(
    ("local_queues", "name", "submitted_to", "cluster_queue", "message"),
    [
        (None, "", "q", "q", ""),
        (None, "lq", "q", "q", ""),
        (None, "lq", "", "", "there is no LocalQueue ns/lq"),
        (None, "", "away", "away", "there is no ClusterQueue away"),
        ([], "", "q", "q", ""),
        ([], "", "", "", "it names no LocalQueue"),
        ([], "lq", "q", "q", "there is no LocalQueue ns/lq"),
        (LOCAL_QUEUES, "other", "q", "q", "there is no LocalQueue ns/other"),
        (LOCAL_QUEUES, "lq", "", "led", ""),
        (LOCAL_QUEUES, "lq", "q", "led", ""),
        (LOCAL_QUEUES, "held", "", "q", "LocalQueue ns/held is inactive: stopPolicy is Hold"),
        (
            [local("lq", stop_policy="HoldAndDrain")],
            "lq",
            "",
            "q",
            "LocalQueue ns/lq is inactive: stopPolicy is HoldAndDrain",
        ),
        ([local("lq", leads="away")], "lq", "q", "away", "there is no ClusterQueue away"),
    ],
)
def test_a_local_queue_routes_to_a_cluster_queue_or_there_is_a_message(
    local_queues: Sequence[LocalQueue] | None, name: str, submitted_to: str, cluster_queue: str, message: str
) -> None:
    router, workload = QueueRouter(local_queues), make_workload("one", 1, local=name)
    assert router.cluster_queue(workload, submitted_to) == cluster_queue
    known = {"q": None, "led": None}
    assert router.inadmissible_message(workload, submitted_to, known) == message
    assert router.inadmissible_message(replace(workload, active=False), submitted_to, known) == "it is deactivated"
    gated = replace(workload, admission_gates=("a.b/c", "a.b/d"))
    assert router.inadmissible_message(gated, submitted_to, known) == "it is gated by a.b/c, a.b/d"


RESERVED = Admission("q", (), pending_checks=("a",))


@pytest.mark.parametrize(
    ("fields", "of_local", "of_cluster", "reason"),
    [
        ({}, "None", "None", None),
        ({}, "Hold", "Hold", None),
        ({}, "None", "Hold", None),
        ({}, "Hold", "None", None),
        ({}, "HoldAndDrain", "None", "LocalQueueStopped"),
        ({}, "HoldAndDrain", "HoldAndDrain", "LocalQueueStopped"),
        ({}, "Hold", "HoldAndDrain", "ClusterQueueStopped"),
        ({"admission": RESERVED}, "None", "None", None),
        ({"admission": RESERVED}, "Hold", "None", "LocalQueueStopped"),
        ({"admission": RESERVED}, "None", "Hold", "ClusterQueueStopped"),
        ({}, "None", "HoldAndDrain", "ClusterQueueStopped"),
        ({"failed_checks": ("a",)}, "HoldAndDrain", "HoldAndDrain", "AdmissionCheck"),
        ({"failed_checks": ("a",), "active": False}, "HoldAndDrain", "HoldAndDrain", "Deactivated"),
        ({"active": False}, "None", "None", "Deactivated"),
    ],
)
def test_a_running_workload_stops_for_the_first_reason(
    fields: dict[str, Any], of_local: StopPolicy, of_cluster: StopPolicy, reason: StopReason | None
) -> None:
    """An admitted workload is stopped by HoldAndDrain, but not by Hold."""
    admitted = replace(make_workload("one", 1, local="lq"), admission=Admission("q", ()))
    workload = replace(admitted, **fields)
    spec = queue("q", 4)._replace(stop_policy=of_cluster)
    assert QueueRouter([local("lq", stop_policy=of_local)]).stop_reason(workload, spec) == reason


@pytest.mark.parametrize(("admission", "reason"), [(RESERVED, "LocalQueueStopped"), (Admission("q", ()), None)])
def test_the_deletion_of_its_local_queue_stops_a_workload_that_is_not_admitted_yet(
    admission: Admission, reason: StopReason | None
) -> None:
    workload = replace(make_workload("one", 1, local="lq"), admission=admission)
    assert QueueRouter([local("other")]).stop_reason(workload, queue("q", 4)) == reason
    assert QueueRouter(None).stop_reason(workload, queue("q", 4)) is None


# --- admission checks

CHECKED = queue("q", 4)._replace(admission_checks=(AdmissionCheckStrategyRule("a"), AdmissionCheckStrategyRule("b")))


@pytest.mark.parametrize(
    ("admission", "pending"),
    [
        (Admission("q", ()), ("a", "b")),
        (Admission("q", (), pending_checks=("b",)), ("b",)),
        (Admission("q", (), admitted_at=0.0), ()),
        (Admission("q", (), admitted_at=7.0), ()),
    ],
)
def test_quota_without_passed_checks_requires_all_checks(admission: Admission, pending: tuple[str, ...]) -> None:
    workload = replace(make_workload("one", 1), admission=admission)
    checked = with_required_checks(workload, CHECKED).admission
    assert checked is not None
    assert checked == admission._replace(pending_checks=pending)
    assert with_required_checks(workload, queue("q", 4)) is workload


def test_a_pending_workload_requires_no_checks_yet() -> None:
    workload = make_workload("one", 1)
    assert with_required_checks(workload, CHECKED) is workload


# --- changes

ONE = replace(
    make_workload("one", 2), walltime=10.0, failed_checks=("b",), allowed_flavors=frozenset({"a", "b"}), priority=5
)


@pytest.mark.parametrize(
    ("fields", "requirements"),
    [
        ({"pod_sets": (PodSet(requests={"cpu": 1}),)}, False),
        ({"pod_sets": (PodSet(requests={"cpu": 3}),)}, False),
        ({"priority": 4}, False),
        ({"priority": 6}, False),
        ({"walltime": 9.5}, False),
        ({"walltime": 10.5}, False),
        ({"walltime": inf}, False),
        ({"failed_checks": ()}, False),
        ({"failed_checks": ("a",)}, False),
        ({"failed_checks": ("c",)}, False),
        ({"allowed_flavors": frozenset({"a"})}, False),
        ({"allowed_flavors": frozenset({"a", "b", "c"})}, False),
        ({"allowed_flavors": None}, False),
        ({"preemption_gated": True}, False),
        ({"eviction": Eviction("Preempted", 3.0)}, True),
        ({"created_at": 1.0}, True),
        ({"queue_name": "other"}, True),
        ({"unhealthy_nodes": ("n",)}, True),
        ({"active": False}, True),
        ({"history_keys": ("ann",)}, True),
    ],
)
def test_a_reservation_remains_valid_only_if_the_requirements_are_equal(
    fields: dict[str, Any], requirements: bool
) -> None:
    """Larger and smaller values both change the requirements; in the whole state, each field counts."""
    changed = replace(ONE, **fields)
    assert same_requirements(ONE, changed) is same_requirements(changed, ONE) is requirements
    assert not same_state(ONE, changed)
    assert not same_state(changed, ONE)


def test_states_of_equal_values_have_equal_requirements() -> None:
    again = replace(
        ONE,
        pod_sets=(PodSet(requests={"cpu": 2}),),
        failed_checks=(*ONE.failed_checks,),
        allowed_flavors=frozenset(["b", "a"]),
    )
    assert same_requirements(ONE, again)
    assert same_state(ONE, again)


# --- queues


def running(name: str, cluster_queue: str) -> Workload:
    pod_set = PodSetAdmission("main", {"cpu": "all"}, {"cpu": 2}, 1)
    return replace(make_workload(name, 2), admission=Admission(cluster_queue, (pod_set,)))


def test_a_removed_queue_is_on_hold_while_a_workload_runs_in_it() -> None:
    """A removed queue is gone once nothing runs in it; a new queue is added."""
    runs = [running("a", "used"), running("b", "stays")]
    old = Snapshot([queue(name, 4) for name in ("used", "unused", "stays", "idle")], workloads=runs)
    configured = (queue("stays", 8), queue("idle", 8), queue("new", 4))
    new, removed = rebuild_snapshot(old, QueueConfiguration(configured), runs, None)
    assert removed == {"used"}
    assert {name: node.spec for name, node in new.cluster_queues.items()} == {
        **{spec.name: spec for spec in configured},
        "used": queue("used", 4)._replace(stop_policy="Hold"),
    }
    assert dict(new.inactive) == {"used": "it has been deleted"}
    usage = {name: node.usage.get(CPU, 0) for name, node in new.cluster_queues.items()}
    assert usage == {"new": 0, "idle": 0, "stays": 2, "used": 2}
    assert new.tas_snapshot is old.tas_snapshot
    assert new.preemption_graph is old.preemption_graph
    assert new.not_preempted is old.not_preempted


@pytest.mark.parametrize("new_nodes", [False, True])
def test_a_running_workload_occupies_its_domain_once(new_nodes: bool) -> None:
    """The topologies may be the previous ones, which already contain the workload, or new ones, which are empty."""
    spec, hosts = placed_queue("q", 99), [Host("one", "x", 2)]
    snapshot = snapshot_of([spec], hosts)
    planner = new_state(snapshot, BackfillPolicy())
    events.submit(planner, job("runs", pods_of(2)), "q")
    (runs,) = schedule(planner, 0).admitted
    configuration = QueueConfiguration((spec,), flavors=tuple((snapshot.resource_flavors or {}).values()))
    placements = TASSnapshot(flavor_topologies(hosts, LEVELS)) if new_nodes else None
    new, _ = rebuild_snapshot(planner.snapshot, configuration, [runs], placements)
    assert not has_capacity(new, runs)
    new.remove_workload(runs)
    assert has_capacity(new, runs)
