"""The simulation of a cluster: short scenarios."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.scenarios import EAGER, arrival, find_job, queue, scenario, start_times, with_nodes
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.types import Victim
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.simulator import cluster_simulation
from zonewise_scheduler.simulator.cluster_simulation import SimulationError, simulate_cluster
from zonewise_scheduler.simulator.forecasters import ClusterForecaster
from zonewise_scheduler.simulator.history import JobRun
from zonewise_scheduler.simulator.latency import Latency

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan

GREEDY, FIFO = policy_named("greedy"), policy_named("fifo")
PREEMPTING = (queue(preemption=EAGER),)


def preempt_all_admitted(state: PlannerState, now: float) -> Plan:
    """Admit what fits and preempt it at once."""
    plan = schedule(state, now)
    victims = tuple(Victim(workload, workload, "InClusterQueue") for workload in plan.admitted)
    return plan._replace(victims=victims)


# --- ties


def test_simultaneous_submissions_are_decided_together() -> None:
    history = simulate_cluster(scenario(*(arrival(f"j{entry}", 2, 5) for entry in range(4))), GREEDY)
    assert start_times(history) == {"j0": 0, "j1": 0, "j2": 0, "j3": 0}
    assert history.decisions == 2


def test_quota_of_an_ending_job_is_free_for_jobs_submitted_at_the_same_time() -> None:
    history = simulate_cluster(scenario(arrival("a", 8, 10), arrival("b", 8, 1, 10)), GREEDY)
    assert start_times(history) == {"a": 0, "b": 10}


def test_a_job_without_length_starts_and_ends() -> None:
    history = simulate_cluster(scenario(arrival("a", 8, 0), arrival("b", 8, 1)), GREEDY)
    assert start_times(history) == {"a": 0, "b": 0}


def test_a_job_starts_at_its_begin_time_and_waits_from_then_on() -> None:
    """It starts although nothing else happens then. In a queue with advance reservations, others let it pass."""
    late = arrival("late", 8, 5)
    late = late._replace(workload=replace(late.workload, begin_at=20.0))
    alone = simulate_cluster(scenario(late), GREEDY)
    assert start_times(alone) == {"late": 20}
    assert find_job(alone, "late").submitted == 20
    advance = scenario(late, arrival("long", 8, 30), queues=(queue()._replace(advance_reservations=True),))
    assert start_times(simulate_cluster(advance, policy_named("easy"))) == {"late": 20, "long": 25}
    assert start_times(simulate_cluster(advance, GREEDY)) == {"late": 30, "long": 0}


def test_jobs_may_be_given_in_any_order() -> None:
    history = simulate_cluster(scenario(arrival("b", 8, 1, 5), arrival("a", 8, 10)), GREEDY)
    assert [job.name for job in history.jobs] == ["a", "b"]
    assert start_times(history) == {"a": 0, "b": 10}


def test_nothing_happens_without_jobs() -> None:
    history = simulate_cluster(scenario(), GREEDY)
    assert (history.jobs, history.decisions, history.capacity) == ([], 0, {"cpu": 8})


# --- preemption


def test_the_work_of_a_preempted_run_is_lost() -> None:
    jobs = arrival("low", 8, 10), arrival("high", 4, 3, 6, priority=1)
    history = simulate_cluster(scenario(*jobs, queues=PREEMPTING), GREEDY)
    assert find_job(history, "high").runs == (JobRun(6, 9, 6),)
    assert find_job(history, "low").runs == (JobRun(0, 6, 0, whole=False), JobRun(9, 19, 9))
    assert find_job(history, "low").wait == 9


def test_victims_have_a_grace_period() -> None:
    jobs = arrival("low", 8, 10), arrival("high", 4, 3, 6, priority=1)
    history = simulate_cluster(scenario(*jobs, queues=PREEMPTING), GREEDY, Latency(grace=2))
    assert find_job(history, "low").runs[0] == JobRun(0, 8, 0, whole=False)
    assert find_job(history, "high").started == 8


def test_a_job_that_ends_within_the_grace_period_is_done() -> None:
    jobs = arrival("low", 8, 10), arrival("high", 4, 3, 6, priority=1)
    history = simulate_cluster(scenario(*jobs, queues=PREEMPTING), GREEDY, Latency(grace=4))
    assert find_job(history, "low").runs == (JobRun(0, 10, 0),)
    assert find_job(history, "high").started == 10


def test_a_run_may_be_lost_before_its_pods_are_ready() -> None:
    jobs = arrival("low", 8, 10), arrival("high", 4, 3, 1, priority=1)
    history = simulate_cluster(scenario(*jobs, queues=PREEMPTING), GREEDY, Latency(2, 2))
    assert find_job(history, "low").runs[0] == JobRun(0, 1, 1, whole=False)


def test_quota_that_a_cohort_lent_is_reclaimed() -> None:
    queues = tuple(queue(name, 4, "all", preemption=EAGER) for name in ("q", "r"))
    jobs = arrival("guest", 8, 10), arrival("owner", 4, 3, 6, to="r")
    history = simulate_cluster(scenario(*jobs, queues=queues), GREEDY)
    assert start_times(history) == {"guest": 9, "owner": 6}


def test_pods_that_fit_on_no_node_wait_even_if_quota_is_available() -> None:
    jobs = (arrival(name, 3, 5, pods=pods) for name, pods in (("a", 2), ("b", 1), ("c", 1), ("d", 5)))
    history = simulate_cluster(with_nodes(scenario(*jobs, queues=(queue(cpus=100),)), ("m", 8), ("n", 4)), GREEDY)
    assert start_times(history) == {"a": 0, "b": 0, "c": 5, "d": None}
    assert find_job(history, "d").outcome == "refused"
    assert find_job(history, "d").explanation.startswith("flavor default: ")


def test_pending_jobs_are_explained() -> None:
    """Under FIFO no job overtakes one that fits nowhere, and each waiting job has an explanation."""
    jobs = arrival("wide", 9, 1), arrival("small", 1, 1, 1)
    history = simulate_cluster(scenario(*jobs), FIFO)
    assert [(entry.outcome, entry.explanation) for entry in history.jobs] == [
        ("refused", find_job(history, "wide").explanation),
        ("waiting", "ns/wide is before it in ClusterQueue q and must start first"),
    ]
    assert find_job(history, "wide").explanation.startswith(
        "needs 0.009 CPUs of flavor default; ClusterQueue q has 0.008"
    )
    bare = arrival("bare", 0, 1)
    bare = bare._replace(workload=replace(bare.workload, pod_sets=(PodSet(),)))
    (job,) = simulate_cluster(with_nodes(scenario(bare), ("m", 8)), GREEDY).jobs
    assert (job.outcome, job.explanation) == ("refused", "it requests nothing, and so has neither flavor nor placement")


def test_endless_preemptions_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner of this test preempts everything that it admits."""
    monkeypatch.setattr(cluster_simulation, "schedule", preempt_all_admitted)
    with pytest.raises(SimulationError, match="ns/a: preempted 1000 times while no job was submitted or ended"):
        simulate_cluster(scenario(arrival("a", 1, 10)), GREEDY)


def test_a_job_may_be_preempted_any_number_of_times_while_other_jobs_end() -> None:
    """Urgent jobs, more than would form a loop, arrive every 10 s and stop a job of 20 s."""
    urgent = [arrival(f"u{number}", 8, 1, 5 + 10 * number, priority=1) for number in range(1001)]
    history = simulate_cluster(scenario(arrival("long", 8, 20), *urgent, queues=PREEMPTING), GREEDY)
    assert len(find_job(history, "long").runs) == 1002
    assert find_job(history, "long").outcome == "done"


def test_a_reservation_is_recorded_once_its_start_is_known() -> None:
    """Job b cannot know its start while job a, without a walltime, runs; then it waits only for job c."""
    jobs = arrival("a", 4, 100), arrival("c", 4, 200, limit=200), arrival("b", 8, 50, 1, limit=50)
    history = simulate_cluster(scenario(*jobs), policy_named("easy"))
    assert [(job.name, job.reservation) for job in history.jobs] == [("a", None), ("c", None), ("b", (100, 200))]


# --- latency


def test_work_begins_when_all_pods_are_ready() -> None:
    history = simulate_cluster(scenario(arrival("a", 2, 10, pods=3)), GREEDY, Latency(1, 2))
    (run,) = find_job(history, "a").runs
    assert run.start == 0
    assert 1 <= run.ready < 2
    assert run.end == run.ready + 10


def test_quota_is_free_some_time_after_the_end() -> None:
    history = simulate_cluster(scenario(arrival("a", 8, 10), arrival("b", 8, 1)), GREEDY, Latency(release=0.5))
    assert find_job(history, "a").runs == (JobRun(0, 10, 0),)
    assert find_job(history, "b").started == 10.5


def test_the_rate_of_admissions_is_limited_by_the_api_server() -> None:
    """All jobs get their quota at once; each starts when its admission is written."""
    jobs = (arrival(f"j{entry}", 1, 5) for entry in range(6))
    history = simulate_cluster(scenario(*jobs), GREEDY, Latency(rate=2, burst=3))
    assert [job.runs[0].start for job in history.jobs] == [0] * 6
    assert [job.runs[0].ready for job in history.jobs] == [0, 0, 0, 0.5, 1, 1.5]


# --- declared run times


def test_a_job_that_outlives_its_declared_run_time_is_killed_if_that_is_enforced() -> None:
    jobs = arrival("a", 8, 10, limit=4), arrival("b", 8, 5, limit=5)
    history = simulate_cluster(scenario(*jobs), GREEDY, Latency(enforce_deadlines=True))
    assert [(job.outcome, job.runs) for job in history.jobs] == [
        ("failed", (JobRun(0, 4, 0),)),
        ("done", (JobRun(4, 9, 4),)),
    ]


def test_a_job_of_a_log_may_outlive_its_declared_run_time() -> None:
    history = simulate_cluster(scenario(arrival("a", 8, 10, limit=4), arrival("b", 8, 5)), GREEDY)
    assert [job.outcome for job in history.jobs] == ["done", "done"]
    assert start_times(history) == {"a": 0, "b": 10}


def test_the_declared_run_time_counts_from_the_start_not_from_when_pods_are_ready() -> None:
    """The field activeDeadlineSeconds counts from the Job's startTime; a killed job's pods have their grace period."""
    jobs = arrival("a", 8, 3, limit=4), arrival("b", 8, 1, limit=9)
    history = simulate_cluster(scenario(*jobs), GREEDY, Latency(2, 2, enforce_deadlines=True, grace=1))
    assert find_job(history, "a").runs == (JobRun(0, 4, 2),)
    assert (find_job(history, "a").outcome, find_job(history, "b").started) == ("failed", 5)


def test_the_declared_run_time_restarts_after_a_preemption() -> None:
    jobs = arrival("low", 8, 10, limit=12), arrival("high", 4, 3, 6, limit=3, priority=1)
    history = simulate_cluster(scenario(*jobs, queues=PREEMPTING), GREEDY, Latency(enforce_deadlines=True))
    assert find_job(history, "low").outcome == "done"


# --- outcomes


def test_a_job_that_fits_nowhere_is_rejected_and_later_jobs_remain_pending() -> None:
    jobs = arrival("huge", 9, 1), arrival("small", 1, 1)
    greedy = simulate_cluster(scenario(*jobs), GREEDY)
    assert [(job.outcome, job.wait) for job in greedy.jobs] == [("refused", None), ("done", 0)]
    strict = simulate_cluster(scenario(*jobs, queues=(queue(queueing_strategy="StrictFIFO"),)), FIFO)
    assert [job.outcome for job in strict.jobs] == ["refused", "waiting"]


def test_a_held_queue_rejects_no_job() -> None:
    history = simulate_cluster(scenario(arrival("a", 1, 1), queues=(queue(stop_policy="Hold"),)), GREEDY)
    assert [job.outcome for job in history.jobs] == ["waiting"]


def test_amounts_are_those_of_the_admission() -> None:
    """With partial admission, fewer pods run."""
    job = arrival("a", 3, 5, pods=4)
    fewer = job.workload.pod_sets[0]._replace(min_pods=1)
    workload = job.workload.__class__("ns", "a", (fewer,), "u")
    history = simulate_cluster(scenario(job._replace(workload=workload)), GREEDY)
    assert (history.jobs[0].amounts, history.jobs[0].outcome) == ({"cpu": 6}, "done")


def test_an_unlimited_resource_has_no_capacity() -> None:
    unlimited = (1 << 63) - 1
    quotas = (
        resource_group(FlavorQuotas("default", (("cpu", ResourceQuota(4)), ("memory", ResourceQuota(unlimited))))),
    )
    history = simulate_cluster(scenario(queues=(ClusterQueue("q", quotas),)), GREEDY)
    assert history.capacity == {"cpu": 4}


def test_names_are_unique() -> None:
    printed = "by hand: job names must be unique; several jobs have the name ns/a, ns/b"
    with pytest.raises(SimulationError, match=f"^{printed}$"):
        simulate_cluster(scenario(*(arrival(name, 1, 1) for name in "abacab")), GREEDY)


def test_progress_is_reported_after_each_decision() -> None:
    reported: list[tuple[int, int, float]] = []

    def progress(done: int, total: int, now: float) -> None:
        reported.append((done, total, now))

    simulate_cluster(scenario(arrival("a", 8, 4), arrival("b", 8, 3)), GREEDY, progress=progress)
    assert reported == [(0, 2, 0), (1, 2, 4), (2, 2, 7)]


# --- forecasts


def test_a_pending_job_has_a_forecast_once_similar_jobs_have_run() -> None:
    """Each job declares 100 s and runs for 10 s. The run time of the first ones is unknown."""
    foresight = ClusterForecaster()
    jobs = [arrival(f"j{entry:02}", 8, 10, 5 * entry, limit=100) for entry in range(12)]
    kin = [entry._replace(workload=replace(entry.workload, history_keys=("ann",))) for entry in jobs]
    history = simulate_cluster(scenario(*kin), GREEDY, forecaster=foresight)
    reported = [entry.forecast for entry in history.jobs]
    assert reported[0] is None
    assert reported[1] is not None
    assert reported[1][1] == pytest.approx(100)
    assert reported[-1] is not None
    assert reported[-1][1] == pytest.approx(110, abs=5)
    assert [entry.started for entry in history.jobs][-1] == 110


def test_every_nth_pending_job_has_a_forecast() -> None:
    foresight = ClusterForecaster(3)
    simulate_cluster(
        scenario(*(arrival(f"j{entry}", 8, 10, limit=10) for entry in range(10))), GREEDY, forecaster=foresight
    )
    likely = {key: forecast[1] for key, forecast in foresight.forecasts.items()}
    assert likely == {f"ns/j{entry}": pytest.approx(10 * entry) for entry in (3, 6, 9)}
