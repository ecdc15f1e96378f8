"""A planner that is fed with entries: each causes its event, and replaying a recording gives the same decisions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.queue_objects import planner_objects
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import InvalidWorkload, PlannerFeed
from zonewise_scheduler.backfill.state.checkpoint import make_checkpoint
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS

Json = dict[str, Any]

OBJECTS = planner_objects({"cpu": 8})


def workload(name: str, cpus: int, *, priority: int = 0) -> Json:
    pod_spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpus}}}]}
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": "l",
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pod_spec}}],
        },
    }


def feed(record: Any = None) -> PlannerFeed:
    fed = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS, record=record)
    fed.configure(OBJECTS, {"ns": {}})
    return fed


def test_a_workload_starts_ends_and_leaves() -> None:
    fed = feed()
    fed.submit(workload("a", 6))
    fed.submit(workload("b", 6))
    assert [one.key for one in fed.run_pass(1.0).admitted] == ["ns/a"]
    assert fed.state.pending_workload("ns/b") is not None
    fed.finish("ns/a")
    assert [one.key for one in fed.run_pass(2.0).admitted] == ["ns/b"]
    fed.evict("ns/b", "Preempted", 3.0)
    fed.withdraw("ns/b")
    assert not fed.state.pending
    assert not fed.state.running


def test_an_unreadable_workload_is_an_error_that_names_the_field() -> None:
    fed = feed()
    broken = workload("a", 1)
    broken["spec"]["podSets"][0]["count"] = -1
    with pytest.raises(InvalidWorkload, match="count"):
        fed.submit(broken)
    assert not fed.state.pending


def test_problems_of_queues_are_recorded_by_object() -> None:
    fed = feed()
    fed.configure(OBJECTS | {"cohorts": [{"metadata": {"name": "c"}, "spec": {"fairSharing": {"weight": "x"}}}]}, {})
    assert list(fed.problems) == ["cohorts/c"]


def test_problems_of_local_queues_are_recorded_by_namespace() -> None:
    fed = feed()
    local_queues = [
        {"metadata": {"namespace": namespace, "name": "l"}, "spec": {"clusterQueue": "q", "stopPolicy": policy}}
        for namespace, policy in (("a", "None"), ("b", "Never"))
    ]
    fed.configure(OBJECTS | {"localQueues": local_queues}, {})
    assert list(fed.problems) == ["localQueues/b/l"]


def test_an_unknown_entry_is_an_error() -> None:
    with pytest.raises(ValueError, match="not an entry of a planner: 'x'"):
        feed().apply({"entry": "x"})


def test_a_feed_counts_its_entries_but_not_passes() -> None:
    fed = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    counts = [fed.applied]
    fed.configure(OBJECTS, {"ns": {}})
    fed.submit(workload("a", 6))
    counts.append(fed.applied)
    fed.run_pass(1.0)
    assert [*counts, fed.applied] == [0, 2, 2]


def test_a_restored_checkpoint_replaces_the_reservations_and_is_recorded() -> None:
    old = PlannerFeed(BackfillPolicy(reserve_after=0.0), DEFAULT_SETTINGS)
    entries: list[Json] = []
    new = PlannerFeed(BackfillPolicy(reserve_after=0.0), DEFAULT_SETTINGS, record=entries.append)
    for fed in (old, new):
        fed.configure(OBJECTS, {"ns": {}})
        fed.submit(workload("a", 6))
        assert fed.run_pass(2e9).admitted
        fed.submit(workload("b", 6))
    new.submit(workload("c", 8, priority=1))
    old.run_pass(2e9 + 1)
    new.run_pass(2e9 + 1)
    assert list(old.state.reservations.by_key) == ["ns/b"]
    assert list(new.state.reservations.by_key) == ["ns/c"]
    checkpoint = json.loads(json.dumps(make_checkpoint(old.state)))
    new.restore(checkpoint, 2e9 + 2)
    assert new.state.now == 2e9 + 2
    assert list(new.state.reservations.by_key) == list(old.state.reservations.by_key)
    assert entries[-1] == {"entry": "restore", "checkpoint": checkpoint, "at": 2e9 + 2}


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2), st.booleans()), max_size=12))
def test_a_recording_gives_the_same_decisions(steps: list[tuple[int, int, bool]]) -> None:
    entries: list[str] = []

    def record(entry: Json) -> None:
        entries.append(json.dumps(entry))

    fed = feed(record)
    decided: list[list[str]] = []
    for i, (cpus, priority, ends) in enumerate(steps):
        fed.submit(workload(f"w{i}", cpus, priority=priority))
        decided.append([one.key for one in fed.run_pass(float(i)).admitted])
        if ends and fed.state.running:
            fed.finish(next(iter(fed.state.running)))
    other = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    replayed: list[list[str]] = []
    for entry in map(json.loads, entries):
        if "plan" in entry:
            continue
        if entry["entry"] == "pass":
            replayed.append([one.key for one in other.run_pass(entry["at"], entry["maxAdmissions"]).admitted])
        else:
            other.apply(entry)
    assert replayed == decided
