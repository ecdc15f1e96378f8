"""Statuses of queues: they reflect the planner's state and need few writes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from support.queue_objects import resource_groups
from zonewise_common.kube.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, Resource
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_scheduler.backfill.state.admission_fair_sharing import AdmissionFairSharing
from zonewise_scheduler.controller.status.queue_status import (
    BUSY_DELAY,
    BUSY_SETTLED,
    DELAY,
    SETTLED,
    QueueStatuses,
    cluster_queue_status,
    local_queue_status,
    status_patch,
)
from zonewise_scheduler.controller.status.queue_summaries import (
    Activity,
    ClusterQueueSummary,
    QueueSummaries,
    ResourceSummary,
    WorkloadCounts,
    summarize_queues,
)
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.resource_quota import FlavorResource, ResourceQuota
from zonewise_scheduler.quota.hierarchy.drs import DRS
from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry

Json = dict[str, Any]

NOW = 1_800_000_000.0
QUEUE = ObjectKey(CLUSTER_QUEUES, "", "q")
LOCAL = ObjectKey(LOCAL_QUEUES, NAMESPACE, "l")
CPU = FlavorResource("f", "cpu")
READY = Activity(is_active=True, reason="Ready", message="Can admit new workloads")


def live_queue(cluster: ModelCluster) -> LiveQueue:
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    queue.settle()
    return queue


def summaries(queue: LiveQueue) -> QueueSummaries:
    return summarize_queues(queue.controller.feed.state, queue.controller.feed.problems)


def status(cluster: ModelCluster, key: ObjectKey) -> Json:
    """Return the status of a queue as the server shows it after the write."""
    queue = summaries(live_queue(cluster))
    if key.resource == CLUSTER_QUEUES:
        observed = cluster.get(key)
        new = cluster_queue_status(observed, queue.cluster_queues[key.name], NOW, fair_sharing=False)
    else:
        observed = cluster.get(key)
        new = local_queue_status(observed, queue.local_queues[f"{key.namespace}/{key.name}"], NOW)
    cluster.change(key, status_patch(observed, new))
    return cluster.get(key)["status"]


def condition(status: Json) -> tuple[str, str, str]:
    (active,) = status["conditions"]
    assert active["type"] == "Active"
    return active["status"], active["reason"], active["message"]


def test_a_status_counts_workloads_and_usage() -> None:
    cluster = ModelCluster()
    for i in range(3):
        cluster.submit(f"j{i}", 3, at=i)
    for key in (QUEUE, LOCAL):
        shown = status(cluster, key)
        assert (shown["reservingWorkloads"], shown["admittedWorkloads"], shown["pendingWorkloads"]) == (2, 2, 1)
        (flavor,) = shown["flavorsUsage"]
        assert flavor["name"] == "f"
        assert flavor["resources"][0]["total"] == "6"
        assert shown["flavorsReservation"][0]["resources"][0]["total"] == "6"
        assert condition(shown)[:2] == ("True", "Ready")


def test_the_first_status_of_an_unused_queue_has_counts_of_0() -> None:
    cluster = ModelCluster()
    for key in (QUEUE, LOCAL):
        counts = {name: value for name, value in status(cluster, key).items() if name.endswith("Workloads")}
        assert counts == {"pendingWorkloads": 0, "reservingWorkloads": 0, "admittedWorkloads": 0}


def test_usage_beyond_the_nominal_quota_is_borrowed() -> None:
    cluster = ModelCluster(cpus=4, cohortName="c")
    spec = {"resourceGroups": resource_groups({"cpu": "4"}), "cohortName": "c"}
    cluster.create(CLUSTER_QUEUES, "", "other", spec=spec)
    cluster.submit("j", 6)
    shown = status(cluster, QUEUE)
    assert shown["flavorsUsage"][0]["resources"] == [{"name": "cpu", "total": "6", "borrowed": "2"}]
    share = summaries(live_queue(cluster)).cluster_queues["q"].share
    assert share.rounded_weighted_share == 250  # 2 of the 8 CPUs that the cohort could lend


def test_a_queue_without_a_cohort_borrows_nothing_even_if_its_quota_is_reduced() -> None:
    cluster = ModelCluster(cpus=6)
    cluster.submit("j", 6)
    queue = live_queue(cluster)
    cluster.change(QUEUE, {"spec": {"resourceGroups": resource_groups({"cpu": "4"}, "f")}})
    queue.settle()
    summary = summaries(queue).cluster_queues["q"]
    (cpu,) = summary.resources.values()
    assert (cpu.reserved, cpu.used, cpu.reserved_borrowed, cpu.borrowed) == (6000, 6000, 0, 0)


def test_a_queue_on_hold_is_not_active() -> None:
    cluster = ModelCluster(stopPolicy="Hold")
    cluster.submit("j", 1)
    shown = status(cluster, QUEUE)
    assert condition(shown) == ("False", "Stopped", "Can't admit new workloads: stopPolicy is Hold")
    assert shown["pendingWorkloads"] == 1
    assert condition(status(cluster, LOCAL))[:2] == ("False", "ClusterQueueIsInactive")


def test_a_missing_flavor_is_named() -> None:
    cluster = ModelCluster()
    del cluster.objects[ObjectKey(RESOURCE_FLAVORS, "", "f")]
    active, reason, message = condition(status(cluster, QUEUE))
    assert (active, reason) == ("False", "FlavorNotFound")
    assert message.endswith("references missing ResourceFlavors: f")


def test_a_cycle_of_cohorts_is_named() -> None:
    cluster = ModelCluster(cohortName="a")
    cluster.create(COHORTS, "", "a", spec={"parentName": "b"})
    cluster.create(COHORTS, "", "b", spec={"parentName": "a"})
    active, reason, message = condition(status(cluster, QUEUE))
    assert (active, reason) == ("False", "CohortCycle")
    assert "cohort a is part of a cycle" in message


def test_a_local_queue_without_its_cluster_queue_is_inactive() -> None:
    cluster = ModelCluster()
    cluster.change(LOCAL, {"spec": {"clusterQueue": "gone"}})
    active, reason, message = condition(status(cluster, LOCAL))
    assert (active, reason) == ("False", "ClusterQueueDoesNotExist")
    assert "'gone'" in message


def test_an_invalid_field_is_named_with_its_value() -> None:
    cluster = ModelCluster()
    (group,) = cluster.get(QUEUE)["spec"]["resourceGroups"]
    group["flavors"][0]["resources"][0]["nominalQuota"] = "-4"
    cluster.change(QUEUE, {"spec": {"resourceGroups": [group]}})
    _, _, message = condition(status(cluster, QUEUE))
    assert "nominalQuota" in message
    assert "-4" in message


AMOUNTS = st.integers(0, 20_000)


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(AMOUNTS, AMOUNTS, AMOUNTS),
    st.tuples(st.integers(0, 3), AMOUNTS),
)
def test_an_unchanged_status_is_not_written_again(
    counts: tuple[int, int, int, int], amounts: tuple[int, int, int], before: tuple[int, int]
) -> None:
    observed: Json = {
        "metadata": {"name": "q", "generation": 1},
        "status": {"pendingWorkloads": before[0], "flavorsUsage": [{"name": "gone", "resources": []}]},
    }
    nominal, reserved, used = amounts
    resources = {CPU: ResourceSummary(ResourceQuota(nominal), reserved, used)}
    summary = ClusterQueueSummary("q", "", READY, WorkloadCounts(*counts), resources, DRS())
    patch = status_patch(observed, cluster_queue_status(observed, summary, NOW, fair_sharing=True))
    written = merge_patch(observed, patch)
    later = cluster_queue_status(written, summary, NOW + 100, fair_sharing=True)
    assert status_patch(written, later) == {}
    assert written["status"].get("pendingWorkloads", 0) == counts[0] + counts[1]
    assert [each["name"] for each in written["status"]["flavorsUsage"]] == ["f"]


@given(st.lists(st.tuples(st.floats(0.05, 3.0), st.integers(0, 3)), max_size=60), st.booleans())
def test_statuses_are_coalesced_and_become_exact_once_changes_stop(
    changes: list[tuple[float, int]], busy: bool
) -> None:
    """A queue that keeps changing is written at most once within DELAY, and one that does not change is not written."""
    observed: Json = {"metadata": {"name": "q"}}
    statuses = QueueStatuses()
    now, reserving = NOW, 0
    writes: list[float] = []

    def objects(resource: Resource) -> list[Json]:
        return [observed] if resource == CLUSTER_QUEUES else []

    def tick() -> None:
        nonlocal observed
        counts = WorkloadCounts(reserving=reserving)
        summary = ClusterQueueSummary("q", "", READY, counts, {}, DRS())
        for write in statuses.due(QueueSummaries({"q": summary}), objects, now, busy=busy):
            assert isinstance(write.body, dict)
            observed = merge_patch(observed, write.body)
            writes.append(now)

    for pause, more in changes:
        tick()
        now += pause
        reserving += more
    for _ in range(8):
        tick()
        now += 1.0
    assert observed["status"].get("reservingWorkloads", 0) == reserving
    assert all(later - earlier >= (BUSY_SETTLED if busy else SETTLED) for earlier, later in pairwise(writes))
    count = len(writes)
    for _ in range(20):
        tick()
        now += 1.0
    assert len(writes) == count


@pytest.mark.parametrize(("busy", "delay"), [(False, DELAY), (True, BUSY_DELAY)])
def test_a_queue_that_keeps_changing_is_written_once_per_delay(busy: bool, delay: float) -> None:
    observed: Json = {"metadata": {"name": "q"}}
    statuses = QueueStatuses()
    times: list[float] = []
    for tick in range(200):
        now = NOW + tick * 0.5
        summary = ClusterQueueSummary("q", "", READY, WorkloadCounts(active=tick + 1), {}, DRS())
        all_objects = {CLUSTER_QUEUES: [observed]}

        def objects(kind: Resource, by_kind: dict[Resource, list[Json]] = all_objects) -> list[Json]:
            return by_kind.get(kind, [])

        for write in statuses.due(QueueSummaries({"q": summary}), objects, now, busy=busy):
            assert isinstance(write.body, dict)
            observed = merge_patch(observed, write.body)
            times.append(now)
    assert len(times) == 200 * 0.5 // (delay + 0.5)


def test_a_missing_or_inactive_check_is_named() -> None:
    cluster = ModelCluster(admissionChecksStrategy={"admissionChecks": [{"name": "licence"}]})
    job = cluster.submit("j", 1)
    active, reason, message = condition(status(cluster, QUEUE))
    assert (active, reason) == ("False", "AdmissionCheckNotFound")
    assert message.endswith("references missing AdmissionChecks: licence")
    cluster.add_check("licence")
    (key,) = [key for key in cluster.objects if key.resource.kind == "AdmissionCheck"]
    cluster.change(key, {"status": {"conditions": [{"type": "Active", "status": "False"}]}})
    active, reason, message = condition(status(cluster, QUEUE))
    assert (active, reason) == ("False", "AdmissionCheckInactive")
    assert message.endswith("references inactive AdmissionChecks: licence")
    cluster.change(key, {"status": {"conditions": [{"type": "Active", "status": "True"}]}})
    assert condition(status(cluster, QUEUE))[:2] == ("True", "Ready")
    assert cluster.get(job)["spec"]["suspend"]


@pytest.mark.parametrize("mode", ["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"])
def test_a_local_queue_shows_its_past_usage_if_usage_orders_the_queues(mode: str) -> None:
    """As in Kueue: KEP-4136, localqueue_controller.go."""
    cluster = ModelCluster(admissionScope={"admissionMode": mode})
    queue = live_queue(cluster)
    state = queue.controller.feed.state
    state.fair_sharing = AdmissionFairSharing(AdmissionFairSharingConfig(60.0))
    state.fair_sharing.restore({f"{NAMESPACE}/l": UsageLedgerEntry({"memory": 2.0**31, "cpu": 1.2504}, NOW)})
    shown = local_queue_status(cluster.get(LOCAL), summaries(queue).local_queues[f"{NAMESPACE}/l"], NOW)
    if mode == "NoAdmissionFairSharing":
        assert "fairSharing" not in shown
    else:
        consumed = {"cpu": "1250m", "memory": "2Gi"}
        past = {"consumedResources": consumed, "lastUpdate": "2027-01-15T08:00:00Z"}
        assert shown["fairSharing"] == {"weightedShare": 0, "admissionFairSharingStatus": past}
