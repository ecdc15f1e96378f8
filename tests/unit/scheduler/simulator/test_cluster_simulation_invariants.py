"""Invariants of the simulation of a cluster."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.scenarios import scenarios
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.latency import Latency
from zonewise_scheduler.simulator.summary import summarise

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History
    from zonewise_scheduler.simulator.scenario import Scenario

POLICIES = st.sampled_from(["fifo", "greedy", "easy", "easy-sjbf", "shortest-reserving", "conservative", "depth-2"])
LATENCIES = st.sampled_from(
    [
        Latency(),
        Latency(1, 2, seed=3),
        Latency(rate=1, burst=2),
        Latency(release=1, grace=2),
        Latency(0.5, 1, rate=0.5, burst=1, release=0.5, grace=1, enforce_deadlines=True),
    ]
)


def most_used(history: History, queues: set[str]) -> int:
    """Return the maximum CPU usage of these queues at any time."""
    changes = [
        change
        for job in history.jobs
        if job.queue in queues
        for run in job.runs
        for change in ((run.start, job.amounts["cpu"]), (run.end, -job.amounts["cpu"]))
    ]
    used = most = 0
    for _, amount in sorted(changes):
        used += amount
        most = max(most, used)
    return most


@given(scenarios(), POLICIES, LATENCIES)
def test_no_quota_is_ever_exceeded(case: Scenario, policy: str, latency: Latency) -> None:
    """Queues in a cohort share their quota; a queue without a cohort has its own."""
    history = simulate_cluster(case, policy_named(policy), latency)
    names = [queue.name for queue in case.queues]
    pools = [set(names)] if case.queues[0].cohort_name else [{name} for name in names]
    for pool in pools:
        quotas = [
            queue.resource_groups[0].flavors[0].quotas[0][1].nominal for queue in case.queues if queue.name in pool
        ]
        assert most_used(history, pool) <= sum(quotas)


@given(scenarios(), POLICIES, LATENCIES)
def test_every_job_that_fits_completes_with_its_run_time(case: Scenario, policy: str, latency: Latency) -> None:
    """Under FIFO, jobs behind one that fits nowhere wait forever. Only the last run is complete, with the run time."""
    history = simulate_cluster(case, policy_named(policy), latency)
    truth = {arrival.workload.name: arrival for arrival in case.arrivals}
    whole = {
        queue.name: history.capacity["cpu"] if queue.cohort_name else _quota(case, queue.name) for queue in case.queues
    }
    for job in history.jobs:
        fits = job.amounts["cpu"] <= whole[job.queue]
        assert (job.outcome == "refused") == (not fits)
        assert job.outcome != "waiting" or policy == "fifo"
        assert all(job.submitted <= run.start <= run.ready <= run.end for run in job.runs)
        assert all(first.end <= second.start for first, second in pairwise(job.runs))
        assert [run.whole for run in job.runs[:-1]] == [False] * (len(job.runs) - 1)
        assert (job.started is not None) == (job.outcome in {"done", "failed"})
        if job.outcome == "done":
            assert job.runs[-1].end - job.runs[-1].ready == pytest.approx(truth[job.name].run_time)


@given(scenarios(), POLICIES, LATENCIES)
def test_the_simulation_is_deterministic(case: Scenario, policy: str, latency: Latency) -> None:
    first, second = (simulate_cluster(case, policy_named(policy), latency) for _ in range(2))
    assert first.jobs == second.jobs


@given(scenarios(priorities=0, declared=True), POLICIES)
def test_reservations_hold_if_declared_run_times_are_upper_bounds(case: Scenario, policy: str) -> None:
    """Without cohorts and priorities, no reservation is broken."""
    single = case._replace(queues=tuple(queue._replace(cohort_name="") for queue in case.queues))
    result = summarise(simulate_cluster(single, policy_named(policy))).reservations
    assert result is None or result.broken == 0


@given(scenarios(), POLICIES, LATENCIES)
def test_the_counts_and_shares_are_consistent(case: Scenario, policy: str, latency: Latency) -> None:
    result = summarise(simulate_cluster(case, policy_named(policy), latency))
    assert result.jobs + result.rejected + result.waiting == len(case.arrivals)
    for name, share in result.utilisation.items():
        assert result.effective[name] + result.lost[name] <= share + 1e-9 <= 1 + 2e-9


def _quota(case: Scenario, name: str) -> int:
    (result,) = (queue for queue in case.queues if queue.name == name)
    return result.resource_groups[0].flavors[0].quotas[0][1].nominal
