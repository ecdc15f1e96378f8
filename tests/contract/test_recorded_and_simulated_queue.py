"""Records of the live queue are a trace: the simulator repeats the waits of the queue that wrote them.

The live queue runs on a model of a cluster, on a virtual clock.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from zonewise_scheduler.accounting.run_record import RunRecord, encode_record
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import api_time
from zonewise_scheduler.quota.api.declared_walltime import MAX_RUN_ANNOTATION
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.inputs.loader import load_fleet
from zonewise_scheduler.simulator.inputs.node_fleet import build_fleet_scenario, build_queues
from zonewise_scheduler.simulator.inputs.record_trace import build_record_scenario
from zonewise_scheduler.simulator.scenario import Arrival

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.scenario import Scenario

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
NODES = "1x8"
MAX_EVENTS = 300


class LoggedRun(NamedTuple):
    """A job of a log; seconds."""

    at: int
    cpus: int
    run: int
    limit: int


def scenario_of(jobs: list[LoggedRun]) -> Scenario:
    fleet = load_fleet(NODES)
    arrivals = [
        Arrival(
            Workload("ns", f"j{job.at}", (PodSet("main", 1, {"cpu": 1000 * job.cpus}),), f"{job.at}",
                     created_at=job.at - jobs[0].at, walltime=job.limit), "q", job.run)
        for job in jobs
    ]  # fmt: skip
    return build_fleet_scenario("log", fleet, arrivals, build_queues(fleet, ["q"]))


def simulated_waits(scenario: Scenario, policy: BackfillPolicy) -> dict[str, float | None]:
    return {job.name: job.wait for job in simulate_cluster(scenario, policy).jobs}


def recorded(jobs: list[LoggedRun], policy: BackfillPolicy) -> list[RunRecord]:
    """Return the records of the live queue."""
    cluster, now, records = ModelCluster(), NOW, list[RunRecord]()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: now, policy=policy)
    waiting, ends, held = list(jobs), dict[ObjectKey, float](), dict[ObjectKey, int]()
    for _ in range(MAX_EVENTS):
        while waiting and waiting[0].at <= now - NOW:
            job = waiting.pop(0)
            cluster.created = api_time(now)
            key = cluster.submit(f"j{job.at}", job.cpus, at=job.at)
            cluster.change(key, {"metadata": {"annotations": {MAX_RUN_ANNOTATION: str(job.limit)}}})
            held[key] = job.run
        queue.settle(cluster.sync_jobs)
        records += queue.controller.take_ended_runs()
        for key in [key for key in held if not cluster.get(key)["spec"]["suspend"]]:
            ends[key] = now + held.pop(key)
        if not waiting and not held and not ends:
            return records
        now = max(now, min([*ends.values(), queue.controller.wake_at, NOW + waiting[0].at if waiting else inf]))
        for key in [key for key, end in ends.items() if end <= now]:
            del ends[key]
            cluster.complete(key)
    raise AssertionError("the jobs do not end")


@st.composite
def drawn_runs(draw: st.DrawFn, at: int) -> LoggedRun:
    run = draw(st.integers(1, 120))
    return LoggedRun(at, draw(st.integers(1, 8)), run, run + draw(st.integers(0, 60)))


@given(
    jobs=st.lists(st.integers(0, 200), unique=True, min_size=1, max_size=8).flatmap(
        lambda times: st.tuples(*map(drawn_runs, sorted(times)))
    ),
    policy=st.sampled_from([BackfillPolicy(), BackfillPolicy(depth=3), BackfillPolicy(shortest_first=True)]),
)
def test_the_simulator_repeats_the_waits_that_the_live_queue_recorded(
    jobs: tuple[LoggedRun, ...], policy: BackfillPolicy
) -> None:
    records = recorded(list(jobs), policy)
    live = {record.name: record.wait for record in records}
    assert live.keys() == {f"j{job.at}" for job in jobs}
    lines = [encode_record(record) + b"\n" for record in records]
    assert simulated_waits(build_record_scenario(lines, load_fleet(NODES), "records"), policy) == live
    assert simulated_waits(scenario_of(list(jobs)), policy) == live
