"""Requests, usage and duration of workloads, and the time since which a workload is pending."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf

import pytest

from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.api.workload_types import (
    Admission,
    Eviction,
    PodSet,
    PodSetAdmission,
    PodSetResources,
    TopologyRequest,
    Workload,
)


@pytest.mark.parametrize(
    ("pods", "scaled", "requests"),
    [
        (4, 4, {"cpu": 4000, "memory": 400}),
        (4, 3, {"cpu": 3000, "memory": 300}),
        (4, 0, {"cpu": 0, "memory": 0}),
        (0, 3, {"cpu": 4000, "memory": 400}),
        (3, 2, {"cpu": 2666, "memory": 266}),
        (300, len(range(300)), {"cpu": 4000, "memory": 400}),
    ],
)
def test_requests_are_scaled_by_pods(pods: int, scaled: int, requests: dict[str, int]) -> None:
    """The share of each pod is rounded down. Requests of zero pods cannot be scaled; equal numbers change nothing."""
    resources = PodSetResources("main", pods, {"cpu": 4000, "memory": 400})
    assert resources.scaled_to(scaled) == PodSetResources("main", scaled, requests)


def test_scaled_requests_are_limited_to_64_bits() -> None:
    assert PodSetResources("main", 1, {"memory": UNLIMITED - 1}).scaled_to(3).requests == {"memory": UNLIMITED}


@pytest.mark.parametrize(("reason", "since"), [("AdmissionCheck", 9), ("PodsReadyTimeout", 9), ("Preempted", 1)])
def test_a_workload_is_pending_since_its_eviction_by_a_check_or_a_timeout(reason: str, since: float) -> None:
    workload = Workload("ns", "w", (), created_at=1.0, eviction=Eviction(reason, 9.0))
    assert workload.queue_order_timestamp() == since


PENDING = Workload(
    "ns",
    "w",
    (PodSet("a", 4, {"cpu": 500, "memory": 3}), PodSet("b", 2, {"cpu": 250, "gpu": -1}), PodSet("c", 1)),
    reclaimable_pods={"a": 1},
)


def test_pods_that_are_no_longer_needed_request_nothing() -> None:
    """A negative request counts as 0."""
    assert PENDING.total_requests == (
        PodSetResources("a", 3, {"cpu": 1500, "memory": 9}),
        PodSetResources("b", 2, {"cpu": 500, "gpu": 0}),
        PodSetResources("c", 1, {}),
    )
    assert PENDING.requests_by_resource == {"cpu": 2000, "memory": 9, "gpu": 0}


def test_a_workload_with_more_reclaimable_pods_than_pods_requests_and_uses_nothing() -> None:
    admitted = PodSetAdmission("a", {"gpu": "x"}, {"gpu": 5}, 2)
    workload = Workload(
        "ns", "w", (PodSet("a", 2, {"gpu": 3}),), admission=Admission("q", (admitted,)), reclaimable_pods={"a": 3}
    )
    assert workload.total_requests == (PodSetResources("a", 0, {"gpu": 0}),)
    assert workload.usage == {FlavorResource("x", "gpu"): 0}


@pytest.mark.parametrize(
    ("all_pods", "reclaimable", "pods", "usage"),
    [
        (3, {}, 2, 5), (2, {}, 2, 5), (1, {}, 1, 2), (3, {"other": 1}, 2, 5), (3, {"a": 1}, 2, 5), (3, {"a": 2}, 1, 2),
        (4, {"a": 3}, 1, 2), (3, {"a": 3}, 0, 0),
    ],
)  # fmt: skip
def test_an_admission_shrinks_to_the_pods_that_are_needed(
    all_pods: int, reclaimable: dict[str, int], pods: int, usage: int
) -> None:
    """Two pods were admitted. A pod set that is not in the workload keeps its admission."""
    admitted = PodSetAdmission("a", {"gpu": "x"}, {"gpu": 5}, 2)
    gone = PodSetAdmission("gone", {"gpu": "x", "cpu": "y"}, {"gpu": 1, "memory": 7}, 1)
    admission = Admission("q", (admitted, gone))
    workload = Workload("ns", "w", (PodSet("a", all_pods),), admission=admission, reclaimable_pods=reclaimable)
    assert workload.admitted_pod_sets == {"a": admitted._replace(pods=pods, usage={"gpu": usage}), "gone": gone}
    assert workload.usage == {FlavorResource("x", "gpu"): usage + 1}
    assert workload.flavor_resources == {FlavorResource("x", "gpu"), FlavorResource("y", "cpu")}


def test_a_workload_without_an_admission_uses_nothing() -> None:
    assert (PENDING.admitted_pod_sets, PENDING.usage, PENDING.flavor_resources) == ({}, {}, frozenset())


@pytest.mark.parametrize(
    ("admission", "duration"),
    [(None, 60), (Admission("q", ()), 60), (Admission("q", (), pending_checks=("check",)), inf)],
)
def test_a_workload_with_pending_checks_has_no_maximum_duration(admission: Admission | None, duration: float) -> None:
    assert Workload("ns", "w", (), admission=admission, walltime=60.0).max_duration == duration


@pytest.mark.parametrize(
    ("admission", "admitted"),
    [
        (None, False),
        (Admission("q", ()), True),
        (Admission("q", (), pending_checks=("check",)), False),
        (Admission("q", (PodSetAdmission("a", {}, {}, 1), PodSetAdmission("b", {}, {}, 1, None, "Ready"))), True),
        (Admission("q", (PodSetAdmission("a", {}, {}, 1), PodSetAdmission("b", {}, {}, 1, None, "Pending"))), False),
    ],
)
def test_a_workload_is_admitted_once_its_checks_have_passed_and_its_placement_is_known(
    admission: Admission | None, *, admitted: bool
) -> None:
    assert Workload("ns", "w", (), admission=admission).is_admitted is admitted


@pytest.mark.parametrize(("begin_at", "since"), [(0.0, 3.0), (2.0, 3.0), (5.0, 5.0)])
def test_a_workload_is_not_pending_before_its_begin_time(begin_at: float, since: float) -> None:
    assert Workload("ns", "w", (), created_at=3.0, begin_at=begin_at).queue_order_timestamp() == since


@pytest.mark.parametrize(("admitted_at", "started_at"), [(None, 5.0), (0.0, 0.0), (9.0, 9.0)])
def test_a_workload_starts_with_its_last_check_or_else_its_quota(admitted_at: float | None, started_at: float) -> None:
    assert Admission("q", (), 5.0, admitted_at=admitted_at).started_at == started_at


def test_a_workload_is_equal_only_to_itself() -> None:
    """A workload may be an element of a set; its fields are not compared."""
    assert len({PENDING, PENDING, replace(PENDING)}) == 2


def test_defaults_of_a_workload() -> None:
    """Its pod sets have one pod that fits any node; it has the default priority, and it may move and preempt."""
    workload, topology = Workload("ns", "w", (PodSet(),)), TopologyRequest()
    assert (workload.pod_sets[0].pods, workload.priority, workload.created_at, workload.walltime) == (1, 0, 0.0, inf)
    assert (workload.active, workload.preemption_gated, workload.owned_by_single_pod) == (True, False, False)
    assert workload.begin_at == 0.0
    assert topology.explicit
    assert Admission("q", ()).started_at == 0.0


def test_nodes_may_count_other_requests_than_quotas() -> None:
    assert PodSet(requests={"cpu": 1}).requests_on_node == {"cpu": 1}
    assert PodSet(requests={"cpu": 1}, node_requests={}).requests_on_node == {}


def test_an_admitted_workload_keeps_only_values_that_do_not_depend_on_its_admission() -> None:
    pods = (PodSet(pods=2, requests={"cpu": 3}),)
    pending = Workload("ns", "a", pods, eviction=Eviction("Preempted", 1.0), unhealthy_nodes=("n",))
    first, second = (
        Admission("q", (PodSetAdmission("main", {"cpu": flavor}, {"cpu": 6}, 2),)) for flavor in ("fast", "slow")
    )
    total, before = pending.total_requests, pending.admitted(first)
    assert before.usage == {FlavorResource("fast", "cpu"): 6}
    after = before.admitted(second)
    expected = replace(pending, admission=second, eviction=None, unhealthy_nodes=())
    assert all(getattr(after, field.name) == getattr(expected, field.name) for field in fields(expected))
    assert after.usage == {FlavorResource("slow", "cpu"): 6}
    assert after.admitted_pod_sets == expected.admitted_pod_sets
    assert after.flavor_resources == {FlavorResource("slow", "cpu")}
    assert after.total_requests is total
