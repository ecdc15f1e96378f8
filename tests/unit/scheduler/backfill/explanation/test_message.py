"""The sentence of an explanation, for each kind of reason."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.backfill.explanation.explanation import Explanation, QuotaShortage, UnsuitableFlavor
from zonewise_scheduler.backfill.explanation.message import explanation_message, format_duration
from zonewise_scheduler.backfill.types import ReservedStart
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure

PLACED = TopologyPlacementFailure("main", "gpus", "2 of 4 pods fit")


def sentence(**facts: Any) -> str:
    return explanation_message(Explanation("ns/one", "team", 3, now=100.0)._replace(**facts))


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (PLACED, "flavor gpus: 2 of 4 pods fit"),
        (PLACED._replace(level="rack"), "flavor gpus: 2 of 4 pods fit"),
        (
            PLACED._replace(level="rack", domain=("b1", "r7")),
            "flavor gpus: 2 of 4 pods fit; most capacity is in rack b1/r7",
        ),
        (
            PLACED._replace(node="n3", kubelet_reason="needs 6 CPUs in one zone"),
            "flavor gpus: 2 of 4 pods fit; on node n3 it needs 6 CPUs in one zone",
        ),
    ],
)
def test_a_placement_failure_names_the_fullest_domain_and_a_node(failure: TopologyPlacementFailure, words: str) -> None:
    assert sentence(placement_failure=failure) == words


def test_a_placement_failure_names_the_device_classes_of_the_missing_resources() -> None:
    classes = (("example.com/gpu", "gpus"),)
    words = "flavor gpus: 2 of 4 pods fit; DeviceClass gpus provides example.com/gpu"
    assert sentence(placement_failure=PLACED, device_classes=classes) == words


@pytest.mark.parametrize(
    ("shortage", "words"),
    [
        (
            QuotaShortage("all", "cpu", 4000, 2000, "cohort", "research", 8000),
            "needs 4 CPUs of flavor all; cohort research has 2 of its 8 left",
        ),
        (
            QuotaShortage("all", "cpu", 1000, 0, "nominal", "team", 8000),
            "needs 1 CPU of flavor all; ClusterQueue team has 0 of its 8 left",
        ),
        (
            QuotaShortage("all", "cpu", 4000, 2000, "nominal", "team", 2000, exceeds_max_quota=True),
            "needs 4 CPUs of flavor all; ClusterQueue team has 2",
        ),
        (
            QuotaShortage("all", "cpu", 4000, 2000, "borrowing", "team", 3000),
            "needs 4 CPUs of flavor all; team may borrow 3 at most, and has 2 left",
        ),
        (
            QuotaShortage("all", "cpu", 4000, 2000, "borrowing", "team", 3000, exceeds_max_quota=True),
            "needs 4 CPUs of flavor all; team may borrow 3 at most, and has 2",
        ),
        (
            QuotaShortage("all", "cpu", 4000, 2000, "cohort", "research", 8000, not_lent=1000, exceeds_max_quota=True),
            "needs 4 CPUs of flavor all; cohort research has 2, and 1 more that its queues do not lend",
        ),
    ],
)
def test_a_quota_shortage_names_what_limits_the_quota(shortage: QuotaShortage, words: str) -> None:
    assert sentence(shortages=(shortage,)) == words


@pytest.mark.parametrize(
    ("resource", "size", "words"),
    [
        ("cpu", 500, "needs 0.5 CPUs of flavor all; ClusterQueue team has 0.5"),
        ("cpu", 1000, "needs 1 CPU of flavor all; ClusterQueue team has 1"),
        ("accelerator", 1000, "needs 1000 accelerator of flavor all; ClusterQueue team has 1000"),
        ("nvidia.com/gpu", 2, "needs 2 nvidia.com/gpu of flavor all; ClusterQueue team has 2"),
    ],
)
def test_only_cpus_are_counted_in_thousandths(resource: str, size: int, words: str) -> None:
    """The name of the resource may be a separate object, as a JSON decoder creates it."""
    lack = QuotaShortage("all", "".join(list(resource)), size, size, "nominal", "team", size, exceeds_max_quota=True)
    assert sentence(shortages=(lack,)) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (3719, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (93_599, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_largest_unit_and_whole_units_of_the_next(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "is number 3 in ClusterQueue team; the next scheduling pass decides"),
        ({"queue_message": "the queue is stopped", "failed_checks": ("a",)}, "the queue is stopped"),
        ({"failed_checks": ("a",)}, "its admission check a has failed"),
        ({"failed_checks": ("a", "b")}, "its admission checks a and b have failed"),
        ({"gated": True, "victims": ("v",)}, "would have to preempt: its preemption gate is closed"),
        ({"victims": ("v", "w")}, "has to preempt v and w"),
        ({"victims": ("u", "v", "w")}, "has to preempt u, v and w"),
        ({"victims": ("t", "u", "v", "w")}, "has to preempt 3 workloads and w"),
        (
            {"delayed_reservation": ReservedStart("ns/two", 400.0)},
            "would delay ns/two, which is reserved to start in 5 min at the latest",
        ),
        (
            {"delayed_reservation": ReservedStart("ns/two", 90.0)},
            "would delay ns/two, which is reserved to start now",
        ),
        ({"blocked_by": "ns/head"}, "ns/head is before it in ClusterQueue team and must start first"),
        ({"unsuitable_flavors": (UnsuitableFlavor("a", "is tainted", "cpu"),)}, "flavor a, cpu: is tainted"),
        ({"unsuitable_flavors": (UnsuitableFlavor("", "there is no flavor"),)}, "there is no flavor"),
        (
            {"blocked_by": "ns/head", "never_fits": True, "waits_for": ("v",), "start": 200.0},
            (
                "ns/head is before it in ClusterQueue team and must start first; "
                "cannot start even when all other workloads have ended"
            ),
        ),
        (
            {"blocked_by": "h", "waits_for": ("v",), "start": 100.0},
            "h is before it in ClusterQueue team and must start first; waits for v to end; could start now",
        ),
        (
            {"blocked_by": "h", "start": float("inf")},
            "h is before it in ClusterQueue team and must start first",
        ),
        (
            {"blocked_by": "h", "reserved": True, "start": float("inf")},
            (
                "h is before it in ClusterQueue team and must start first; "
                "is reserved to start at an unknown time, since workloads without a walltime must end first"
            ),
        ),
    ],
)
def test_each_reason_has_its_clause(facts: dict[str, Any], words: str) -> None:
    assert sentence(**facts) == words
