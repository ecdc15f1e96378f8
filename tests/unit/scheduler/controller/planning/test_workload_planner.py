"""The planning of Workloads: a decision counts until its object shows it or can no longer show it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from support.queue_objects import planner_objects
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.state.checkpoint import make_checkpoint
from zonewise_scheduler.controller.nodes.node_view import NodeView
from zonewise_scheduler.controller.planning.active_jobs import ActiveJobs
from zonewise_scheduler.controller.planning.intents import AdmitIntent, EvictIntent
from zonewise_scheduler.controller.planning.workload_planner import WorkloadPlanner
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS

if TYPE_CHECKING:
    import pytest

Json = dict[str, Any]

NOW = 1_000_000.0


class Planned:
    """A planner of 4 CPUs and the Workloads that it reads."""

    def __init__(self, max_assumed: int = 100, **spec: Any) -> None:
        """Take the maximum number of decisions that no object shows yet, and fields of the queue."""
        self.objects: dict[str, Json] = {}
        feed = PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
        feed.configure(planner_objects({"cpu": 4}, **spec), {"ns": {}})
        nodes = NodeView()
        jobs = ActiveJobs(lambda _key: None, {}, {}, nodes.tracker, lambda _key: ())
        self.planner = WorkloadPlanner(
            feed, self.objects, nodes, lambda feed, at, most: feed.run_pass(at, most), max_assumed, jobs
        )

    def change(self, name: str, cpus: int | str, generation: int = 1, priority: int = 0) -> None:
        """Change a Workload with one pod that requests these CPUs."""
        pod_spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpus}}}]}
        metadata = {"namespace": "ns", "name": name, "uid": name, "generation": generation}
        pod_sets = [{"name": "main", "count": 1, "template": {"spec": pod_spec}}]
        self.objects[f"ns/{name}"] = {
            "metadata": {**metadata, "creationTimestamp": "1970-01-10T00:00:00Z"},
            "spec": {"queueName": "l", "podSets": pod_sets, "priority": priority},
        }
        self.planner.change(f"ns/{name}")

    def admit(self, name: str, queue: str = "q") -> None:
        """Make the object show that a Workload is admitted."""
        assignment = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}, "count": 1}
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": "1970-01-12T00:00:00Z"}
            for kind in ("QuotaReserved", "Admitted")
        ]
        admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
        self.objects[f"ns/{name}"]["status"] = {"admission": admission, "conditions": conditions}
        self.planner.change(f"ns/{name}")
        if (intent := self.planner.intent(f"ns/{name}")) is not None:
            self.planner.sync(NOW)
            self.planner.end_intent(f"ns/{name}", self.objects[f"ns/{name}"])
            assert isinstance(intent, AdmitIntent)

    def delete(self, name: str) -> None:
        del self.objects[f"ns/{name}"]
        self.planner.change(f"ns/{name}")

    def step(self, now: float = NOW) -> list[str]:
        """Return the keys of the workloads that the planner decides about."""
        self.planner.sync(now)
        return list(self.planner.decide(now))


def test_a_decision_is_an_intent_and_its_workload_counts_at_once() -> None:
    planned = Planned()
    planned.change("a", 3)
    planned.change("b", 3)
    assert planned.step() == ["ns/a"]
    assert isinstance(planned.planner.intent("ns/a"), AdmitIntent)
    assert list(planned.planner.feed.state.running) == ["ns/a"]
    assert planned.step() == []


def test_a_new_decision_is_made_about_a_changed_workload() -> None:
    planned = Planned()
    planned.change("a", 3)
    planned.step()
    planned.change("a", 4, generation=2)
    assert planned.step() == ["ns/a"]
    intent = planned.planner.intent("ns/a")
    assert isinstance(intent, AdmitIntent)
    assert intent.generation == 2


def test_a_deleted_workload_releases_its_quota() -> None:
    planned = Planned()
    planned.change("a", 3)
    planned.step()
    planned.change("b", 3)
    planned.delete("a")
    assert planned.step() == ["ns/b"]
    assert planned.planner.assumed == 1


def test_the_number_of_decisions_is_limited_to_those_that_can_be_assumed() -> None:
    planned = Planned(max_assumed=2)
    for name in "abc":
        planned.change(name, 1)
    assert planned.step() == ["ns/a", "ns/b"]
    assert planned.step() == []
    assert planned.planner.wake_at(NOW, leads=True) == inf
    planned.delete("a")
    assert planned.step() == ["ns/c"]


def test_a_restart_forgets_intents_and_restores_reservations() -> None:
    planned = Planned()
    planned.change("a", 3)
    planned.change("b", 4)
    planned.step()
    checkpoint = make_checkpoint(planned.planner.feed.state)
    successor = Planned()
    successor.objects.update(planned.objects)
    for key in planned.objects:
        successor.planner.change(key)
    successor.planner.restart(checkpoint)
    successor.planner.sync(NOW)
    assert make_checkpoint(successor.planner.feed.state)["reservations"] == checkpoint["reservations"]
    planned.planner.restart(None)
    assert planned.planner.assumed == 0
    assert not planned.planner.feed.state.running
    assert len(planned.step()) == 1


def test_an_unreadable_workload_is_listed_until_it_is_readable() -> None:
    planned = Planned()
    planned.change("a", "many")
    planned.step()
    assert list(planned.planner.invalid) == ["ns/a"]
    assert "cpu" in planned.planner.invalid["ns/a"]
    planned.change("a", 1, generation=2)
    assert planned.step() == ["ns/a"]
    assert not planned.planner.invalid


def test_a_dropped_eviction_is_decided_again() -> None:
    """A replica that loses the lead and regains it evicts the same victims as before."""
    planned = Planned(preemption={"withinClusterQueue": "LowerPriority"})
    planned.change("low", 3)
    assert planned.step() == ["ns/low"]
    planned.admit("low")
    planned.change("high", 3, priority=5)
    later = NOW + 3600  # a workload that has only just started is not a victim
    assert planned.step(later) == ["ns/low"]
    assert isinstance(planned.planner.intent("ns/low"), EvictIntent)
    planned.planner.restart(None)
    assert planned.planner.intent("ns/low") is None
    assert planned.step(later) == ["ns/low"]
    assert isinstance(planned.planner.intent("ns/low"), EvictIntent)


def test_a_workload_that_cannot_be_adopted_does_not_affect_others() -> None:
    planned = Planned()
    planned.change("lost", 1)
    planned.admit("lost", queue="missing")
    planned.change("a", 3)
    assert planned.step() == ["ns/a"]
    assert "unknown ClusterQueue" in planned.planner.invalid["ns/lost"]
    planned.admit("lost")
    planned.planner.note_configuration()
    planned.step()
    assert "ns/lost" in planned.planner.feed.state.running


def test_a_failure_with_one_workload_does_not_affect_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The planner gets the failed Workload ten seconds later."""
    planned = Planned()
    submit = planned.planner.feed.submit

    def fail(workload: Json) -> None:
        if workload["metadata"]["name"] == "a":
            raise KeyError("queue")
        submit(workload)

    monkeypatch.setattr(planned.planner.feed, "submit", fail)
    for name in "ab":
        planned.change(name, 1)
    assert planned.step() == ["ns/b"]
    assert "workload=ns/a" in caplog.text
    assert planned.planner.wake_at(NOW, leads=False) == NOW + 10
    monkeypatch.undo()
    assert planned.step(NOW + 9.9) == []
    assert planned.step(NOW + 10) == ["ns/a"]
