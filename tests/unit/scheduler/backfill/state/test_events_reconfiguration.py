"""Queues, flavors and quotas that change while workloads run or wait."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.planner_stories import CPU, local, make_planner, make_workload, queue
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import replace_infeasible_reservations, schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.api.queue_types import Requirement, ResourceFlavor
from zonewise_scheduler.quota.api.workload_types import Admission, Eviction, PodSetAdmission

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import LocalQueue

POLICIES = [
    BackfillPolicy(),
    BackfillPolicy(depth=2),
    BackfillPolicy(depth=UNLIMITED_DEPTH),
    BackfillPolicy(reserve_after=float("inf")),
    BackfillPolicy(overtaking=False),
]


def starts(planner: PlannerState, now: float) -> list[str]:
    return [one.key for one in schedule(planner, now).admitted]


def reserved_starts(planner: PlannerState) -> list[tuple[str, float]]:
    return [(reservation.workload.key, reservation.start) for reservation in planner.reservations_by_start]


def busy(policy: BackfillPolicy, cpus: int = 4) -> PlannerState:
    """Return a planner with one workload that runs until 10 and three pending ones."""
    planner = make_planner([queue("q", cpus)], policy)
    events.submit(planner, make_workload("runs", cpus, run=10), "q")
    schedule(planner, 0)
    for at, name, wants, run in ((0.25, "wide", 4, 10), (0.5, "long", 1, 20), (0.75, "short", 1, 5)):
        events.submit(planner, make_workload(name, wants, run=run, at=at), "q")
    schedule(planner, 1)
    return planner


def test_additional_quota_is_used_at_once() -> None:
    planner = busy(BackfillPolicy())
    events.reconfigure(planner, QueueConfiguration((queue("q", 8),)))
    assert starts(planner, 2) == ["ns/wide"]


def test_running_workloads_still_count_under_a_smaller_quota() -> None:
    """Usage may exceed the quota until workloads end; reservations move only as far as necessary."""
    planner = busy(BackfillPolicy(depth=UNLIMITED_DEPTH))
    assert reserved_starts(planner) == [("ns/wide", 10), ("ns/long", 20), ("ns/short", 20)]
    events.reconfigure(planner, QueueConfiguration((queue("q", 3),)))
    assert starts(planner, 2) == []
    assert planner.snapshot.cluster_queues["q"].usage[CPU] == 4
    assert reserved_starts(planner) == [("ns/long", 10), ("ns/short", 10)]
    events.finish(planner, "ns/runs")
    assert set(starts(planner, 10)) == {"ns/long", "ns/short"}


def test_new_quota_gives_a_rejected_workload_a_reservation() -> None:
    planner = busy(BackfillPolicy(), 3)
    assert reserved_starts(planner) == [("ns/long", 10)]
    events.reconfigure(planner, QueueConfiguration((queue("q", 4),)))
    assert starts(planner, 2) == ["ns/long"]
    assert reserved_starts(planner) == [("ns/wide", 22)]


def test_workloads_of_a_removed_queue_wait_for_it() -> None:
    """Running workloads count in the cohort of the removed queue until they have ended."""
    specs = queue("a", 4, cohort="c"), queue("b", 4, cohort="c")
    planner = make_planner(specs, BackfillPolicy())
    for name in ("one", "two"):
        events.submit(planner, make_workload(name, 4, run=10), "a")
        schedule(planner, 0)
    events.submit(planner, make_workload("three", 4, at=1), "a")
    events.submit(planner, make_workload("four", 8, at=1), "b")
    schedule(planner, 1)
    events.reconfigure(planner, QueueConfiguration(specs[1:]))
    assert starts(planner, 2) == []
    assert planner.inadmissible["ns/three"].message == "there is no ClusterQueue a"
    assert reserved_starts(planner) == [("ns/four", 10)]
    events.finish(planner, "ns/one")
    assert starts(planner, 3) == []
    assert planner.snapshot.inactive == {"a": "it has been deleted"}
    events.evict(planner, "ns/two", Eviction("Preempted", 4))
    assert starts(planner, 4) == []
    assert list(planner.snapshot.cluster_queues) == ["b"]
    assert planner.inadmissible.keys() == {"ns/two", "ns/three"}
    events.reconfigure(planner, QueueConfiguration(specs))
    assert starts(planner, 5) == ["ns/two", "ns/three"]
    assert reserved_starts(planner) == [("ns/four", 15)]


@pytest.mark.parametrize("moves_to", ["a", "c"])
def test_a_workload_of_a_local_queue_that_moves_is_reserved_in_its_new_queue(moves_to: str) -> None:
    specs = tuple(queue(name, 4) for name in "abc")
    planner = make_planner(specs, BackfillPolicy())
    events.reconfigure(planner, QueueConfiguration(specs, local_queues=(local("l", leads="b"),)))
    for name, run in (("runs", 10), ("waits", 10)):
        events.submit(planner, replace(make_workload(name, 4, run=run), queue_name="l"))
        schedule(planner, 0)
    assert reserved_starts(planner) == [("ns/waits", 10)]
    events.reconfigure(planner, QueueConfiguration(specs, local_queues=(local("l", leads=moves_to),)))
    assert reserved_starts(planner) == []
    assert starts(planner, 1) == ["ns/waits"]


def test_a_reservation_in_a_removed_flavor_is_replaced() -> None:
    planner = busy(BackfillPolicy())
    other = queue("q", 4)
    flavors = tuple(one._replace(name="other") for one in other.resource_groups[0].flavors)
    events.reconfigure(
        planner,
        QueueConfiguration((other._replace(resource_groups=(other.resource_groups[0]._replace(flavors=flavors),)),)),
    )
    assert starts(planner, 2) == ["ns/wide"]
    assert planner.running["ns/wide"].workload.usage == {CPU._replace(flavor="other"): 4}


def test_a_missing_flavor_puts_its_queues_on_hold() -> None:
    planner = busy(BackfillPolicy())
    events.reconfigure(planner, QueueConfiguration((queue("q", 8),), flavors=()))
    assert starts(planner, 2) == []
    assert reserved_starts(planner) == []
    events.reconfigure(planner, QueueConfiguration((queue("q", 8),), flavors=(ResourceFlavor("all"),)))
    assert starts(planner, 2) == ["ns/wide"]


def test_a_queue_admits_matching_namespaces_only() -> None:
    """A workload of another namespace has an explanation, and it is admitted once the labels of its namespace match."""
    spec = queue("q", 4)
    unlabelled = spec._replace(namespace_selector=None)
    planner = make_planner([unlabelled], BackfillPolicy())
    events.submit(planner, make_workload("one", 4), "q")
    step = schedule(planner, 0)
    assert step.decisions["ns/one"].reason == "Misconfigured"
    assert reserved_starts(planner) == []
    events.reconfigure(planner, QueueConfiguration((spec,), namespaces={"ns": {}}))
    assert starts(planner, 1) == ["ns/one"]


def test_labels_that_no_selector_reads_activate_no_queue() -> None:
    spec = queue("q", 4)._replace(namespace_selector=(Requirement("team", "In", ("a",)),))
    planner = make_planner([spec], BackfillPolicy())
    events.submit(planner, make_workload("one", 4), "q")
    events.reconfigure(planner, QueueConfiguration((spec,), namespaces={"ns": {"team": "b"}}))
    assert starts(planner, 0) == []
    events.change_namespaces(planner, {"ns": {"team": "c", "tier": "web"}, "other": {"team": "b"}})
    assert not planner.freed_queues
    assert planner.configuration.namespaces == {"ns": {"team": "c", "tier": "web"}, "other": {"team": "b"}}
    events.change_namespaces(planner, {"ns": {"team": "a"}, "other": None})
    assert starts(planner, 1) == ["ns/one"]
    assert planner.configuration.namespaces == {"ns": {"team": "a"}}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@given(
    st.lists(st.dictionaries(st.sampled_from(["n", "m"]), st.sampled_from(["a", "b", ""]), min_size=1), max_size=6),
    st.integers(1, 6),
)
@example([{"n": ""}, {"m": "b"}, {"m": "a"}], 1)  # the first workload was due while its namespace did not match
def test_changed_namespaces_have_the_effect_of_a_configuration_with_their_labels(
    policy: BackfillPolicy, steps: list[dict[str, str]], capacity: int
) -> None:
    """The same workloads start at the same times, in the same order. An empty value stands for a deleted namespace.

    The queue is alone in its cohort: a configuration would also make the workloads of other queues heads again.
    """
    spec = queue("q", capacity)._replace(namespace_selector=(Requirement("team", "In", ("a",)),))
    changed, configured = make_planner([spec], policy), make_planner([spec], policy)
    labels: dict[str, dict[str, str]] = {}
    for planner in (changed, configured):
        events.reconfigure(planner, QueueConfiguration((spec,), namespaces=labels))
    for now, step in enumerate(steps):
        changes = {name: {"team": team} if team else None for name, team in step.items()}
        labels = {name: value for name, value in {**labels, **changes}.items() if value is not None}
        for planner in (changed, configured):
            for name in "nm":
                events.submit(planner, replace(make_workload(f"{now}", 1, at=now), namespace=name), "q")
        events.change_namespaces(changed, changes)
        events.reconfigure(configured, QueueConfiguration((spec,), namespaces=labels))
        assert starts(changed, now) == starts(configured, now)


@st.composite
def local_queues(draw: st.DrawFn) -> LocalQueue:
    """Draw a LocalQueue; there is no ClusterQueue x."""
    return local(
        draw(st.sampled_from("lm")),
        leads=draw(st.sampled_from("abx")),
        stop_policy=draw(st.sampled_from(["None", "None", "Hold", "HoldAndDrain"])),
        default_walltime=draw(st.sampled_from([inf, 3, 7])),
    )


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@given(
    st.lists(st.lists(local_queues(), max_size=2, unique_by=lambda queue: queue.name), min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from("lm"), st.integers(1, 4), st.sampled_from([2, 5, inf])), min_size=6, max_size=6),
)
def test_changed_local_queues_have_the_effect_of_a_configuration_with_them(
    policy: BackfillPolicy, steps: list[list[LocalQueue]], arrivals: list[tuple[str, int, float]]
) -> None:
    """The same workloads start, stop and wait at the same times."""
    specs = queue("a", 4, cohort="c"), queue("b", 2, cohort="c")
    changed, configured = make_planner(specs, policy, []), make_planner(specs, policy, [])
    for planner in (changed, configured):
        events.reconfigure(planner, QueueConfiguration(specs, local_queues=()))
    for now, (queues, (name, cpus, run)) in enumerate(zip(steps, arrivals, strict=False)):
        configuration = QueueConfiguration(specs, local_queues=tuple(queues))
        assert events.change_local_queues(changed, configuration)
        events.reconfigure(configured, configuration)
        for planner in (changed, configured):
            for key in [key for key, each in planner.running.items() if each.deadline <= now]:
                events.finish(planner, key)
            events.submit(planner, make_workload(f"{now}", cpus, run, at=now, local=name))
        plans = [schedule(planner, now) for planner in (changed, configured)]
        assert len({tuple(workload.key for workload in plan.admitted) for plan in plans}) == 1
        assert len({frozenset((stop.workload.key, stop.reason) for stop in plan.stopped) for plan in plans}) == 1
        messages = [
            {key: each.message for key, each in planner.inadmissible.items()} for planner in (changed, configured)
        ]
        assert messages[0] == messages[1]
        assert changed.pending == configured.pending
        assert reserved_starts(changed) == reserved_starts(configured)
        assert [(run.deadline, run.workload.key) for run in changed.running_workloads] == [
            (run.deadline, run.workload.key) for run in configured.running_workloads
        ]


def test_any_other_change_configures_all_queues() -> None:
    planner = make_planner([], BackfillPolicy(), [])
    specs, queues = (queue("q", 4),), (local("l"),)
    assert not events.change_local_queues(planner, QueueConfiguration(specs, local_queues=queues))
    events.reconfigure(planner, QueueConfiguration(specs, local_queues=queues))
    assert events.change_local_queues(planner, QueueConfiguration(specs, local_queues=()))
    assert not events.change_local_queues(planner, QueueConfiguration((queue("q", 5),), local_queues=()))
    assert not events.change_local_queues(planner, QueueConfiguration(specs, namespaces={}, local_queues=()))
    assert not events.change_local_queues(planner, QueueConfiguration(specs))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.integers(1, 9), st.sampled_from("ab"), st.integers(0, 1)),
        min_size=1,
        max_size=10,
    ),
    st.integers(0, 9),
)
def test_an_equal_configuration_changes_no_reservation(
    policy: BackfillPolicy, arrivals: list[tuple[int, int, str, int]], when: int
) -> None:
    """All starts are the same whenever the configuration is repeated, and whatever arrives and ends then."""
    specs = queue("a", 4, cohort="c"), queue("b", 4, cohort="c")
    planner, other = make_planner(specs, policy), make_planner(specs, policy)
    for now, (cpus, run, name, priority) in enumerate(arrivals):
        for one in (planner, other):
            for key in [key for key, each in one.running.items() if each.deadline <= now]:
                events.finish(one, key)
            events.submit(one, make_workload(f"{now}", cpus, run=run, at=now, priority=priority), name)
        if now == when:
            before = reserved_starts(planner)
            events.reconfigure(planner, QueueConfiguration(specs))
            replace_infeasible_reservations(planner)
            assert reserved_starts(planner) == before
        assert starts(planner, now) == starts(other, now)
        assert reserved_starts(planner) == reserved_starts(other)


def test_a_workload_of_a_new_queue_ends_before_the_next_pass() -> None:
    """A replica that is no longer the leader runs no passes, but it still observes which workloads run and end."""
    planner = busy(BackfillPolicy())
    events.reconfigure(planner, QueueConfiguration((queue("q", 4), queue("new", 4))))
    admission = Admission("new", (PodSetAdmission("main", {"cpu": "all"}, {"cpu": 1}, 1),), 1.0)
    events.adopt(planner, replace(make_workload("other", 1), admission=admission))
    events.finish(planner, "ns/other")
    assert set(planner.running) == {"ns/runs"}


def with_default(seconds: float) -> QueueConfiguration:
    """Return a planner with a queue of 4 CPUs and a LocalQueue that declares a default walltime."""
    return QueueConfiguration((queue("q", 4),), local_queues=(local("l", default_walltime=seconds),))


def test_a_changed_default_walltime_applies_to_running_and_waiting_workloads() -> None:
    """The deadline follows from the new default, and a waiting workload has a reservation for the new walltime."""
    planner = make_planner([], BackfillPolicy(), [])
    events.reconfigure(planner, with_default(100))
    for at, name in enumerate(("runs", "waits", "last")):
        events.submit(planner, make_workload(name, 4, inf, at=at, local="l"))
        schedule(planner, at)
    events.submit(planner, make_workload("declared", 4, 50, at=3, local="l"))
    events.reconfigure(planner, with_default(300))
    schedule(planner, 4)
    assert planner.running["ns/runs"].deadline == 300
    pending = {key: workload.walltime for key in planner.pending if (workload := planner.pending_workload(key))}
    assert pending == {"ns/waits": 300, "ns/last": 300, "ns/declared": 50}
    assert [(one.start, one.deadline) for one in planner.reservations_by_start] == [(300, 600)]
    events.reconfigure(planner, with_default(inf))
    schedule(planner, 5)
    assert planner.running["ns/runs"].deadline == inf
    assert [(one.start, one.deadline) for one in planner.reservations_by_start] == [(inf, inf)]
