"""A forecast in its own thread does not change the planner, and the planner does not change the forecast."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from support.node_changes import node_change, report_change, usage_change
from unit.scheduler.backfill.recording.test_planner_feed_nodes import decisions, feed, workload
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.controller.planning.forecaster import copy_basis, sample_basis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed

NODES = [f"n{i}" for i in range(6)]
ROUNDS = 12


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Let threads switch after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def job(name: str, pods: int, cpus: int) -> dict[str, Any]:
    """Return a Workload that runs for at most ten minutes."""
    obj = workload(name, pods, cpus)
    obj["spec"]["maximumExecutionTimeSeconds"] = 600
    return obj


def new_queue() -> PlannerFeed:
    """Return a queue whose workloads run on all nodes, admitted but not yet observed, while others wait."""
    fed = feed()
    fed.change_nodes([change for name in NODES for change in (node_change(name), report_change(name, 0))])
    for i in range(24):
        fed.submit(job(f"w{i:02}", 1 + i % 2, 6))
    fed.run_pass(1.0)
    return fed


def advance(fed: PlannerFeed, number: int, turn: int) -> Any:
    """End and submit workloads, change a report, usage and a node, run a pass, and return its decisions."""
    fed.change_nodes([report_change(NODES[number % 5], number % 3), usage_change(NODES[number % 4], 1000 * number)])
    fed.change_nodes([node_change(NODES[5], ready="True" if number % 3 else "False")])
    for key in list(fed.state.running)[:2]:
        fed.confirm(key)
        fed.finish(key)
    fed.submit(job(f"later{number:02}-{turn}", 1 + number % 2, 4))
    return decisions(fed.run_pass(2.0 + number))


def test_a_forecast_does_not_change_the_planner() -> None:
    fed = new_queue()
    assumed, protected = set(fed.state.assumed or ()), set(fed.state.snapshot.not_preempted)
    assert assumed
    assert sample_basis(copy_basis(fed.state, ForecastHistory(), 2.0))
    assert fed.state.assumed == assumed
    assert fed.state.snapshot.not_preempted == protected


def test_a_forecast_uses_the_nodes_of_its_copy() -> None:
    fed, same = new_queue(), new_queue()
    basis = copy_basis(fed.state, ForecastHistory(), 2.0)
    fed.change_nodes([change for name in NODES for change in (usage_change(name, 14_000), report_change(name, 2))])
    forecasts = sample_basis(basis)
    assert forecasts == sample_basis(copy_basis(same.state, ForecastHistory(), 2.0))
    assert all(max(sampled.starts) < inf for sampled in forecasts.values())


@pytest.mark.usefixtures("frequent_switches")
def test_concurrent_planning_and_forecasting_equal_their_sequential_execution() -> None:
    alone, beside = new_queue(), new_queue()
    with ThreadPoolExecutor(1) as forecasts:
        for number in range(ROUNDS):
            expected = sample_basis(copy_basis(alone.state, ForecastHistory(), 2.0 + number))
            result = forecasts.submit(sample_basis, copy_basis(beside.state, ForecastHistory(), 2.0 + number))
            for turn in count():
                decided = advance(beside, number, turn)
                assert decided == advance(alone, number, turn)
                if result.done():
                    break
            assert result.result() == expected
