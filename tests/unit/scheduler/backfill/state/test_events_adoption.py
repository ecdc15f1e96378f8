"""Adopted admissions, which another planner decided; admissions that were not carried out; passes that end early."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import CPU, make_planner, make_workload, queue
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.quota.api.workload_types import Eviction

AMOUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=12)


@given(AMOUNTS)
def test_adopted_admissions_have_the_usage_and_deadlines_of_the_original_planner(amounts: list[int]) -> None:
    first, second = make_planner([queue("q", 12)], BackfillPolicy()), make_planner([queue("q", 12)], BackfillPolicy())
    for i, cpus in enumerate(amounts):
        for planner in (first, second):
            events.submit(planner, make_workload(f"w{i}", cpus, run=10 + i), "q")
    for workload in schedule(first, 0).admitted:
        events.adopt(second, workload)
    assert second.pending.keys() == first.pending.keys()
    assert {key: run.deadline for key, run in second.running.items()} == {
        key: run.deadline for key, run in first.running.items()
    }
    assert second.snapshot.cluster_queues["q"].available(CPU) == first.snapshot.cluster_queues["q"].available(CPU)
    assert not schedule(second, 0).admitted


def test_a_workload_is_adopted_once_and_only_with_an_admission_to_a_known_queue() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    with pytest.raises(ValueError, match="not adopted"):
        events.adopt(planner, make_workload("w", 1))
    events.submit(planner, make_workload("w", 1), "q")
    (admitted,) = schedule(planner, 0).admitted
    with pytest.raises(ValueError, match="not adopted"):
        events.adopt(planner, admitted)
    assert admitted.admission is not None
    lost = replace(admitted, name="x", admission=admitted.admission._replace(cluster_queue="absent"))
    with pytest.raises(ValueError, match="not adopted"):
        events.adopt(planner, lost)


def test_an_adopted_workload_that_was_evicted_is_stopping() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("w", 1), "q")
    (admitted,) = schedule(planner, 0).admitted
    other = make_planner([queue("q", 4)], BackfillPolicy())
    events.adopt(other, replace(admitted, eviction=Eviction("Preempted", 1.0)))
    assert other.running_workloads.stopping == {"ns/w"}


@given(AMOUNTS)
def test_a_forgotten_admission_is_decided_again(amounts: list[int]) -> None:
    planner = make_planner([queue("q", 12)], BackfillPolicy(reserve_after=inf))
    for i, cpus in enumerate(amounts):
        events.submit(planner, make_workload(f"w{i}", cpus, at=i), "q")
    admitted = schedule(planner, 20).admitted
    for workload in admitted:
        events.forget(planner, workload.key)
    assert planner.snapshot.cluster_queues["q"].available(CPU) == 12
    assert [workload.key for workload in schedule(planner, 20).admitted] == [workload.key for workload in admitted]


@given(AMOUNTS, st.integers(1, 3), st.sampled_from([BackfillPolicy(), BackfillPolicy(reserve_after=5)]))
def test_short_passes_together_admit_what_one_pass_admits(
    amounts: list[int], limit: int, policy: BackfillPolicy
) -> None:
    whole, parts = make_planner([queue("q", 12)], policy), make_planner([queue("q", 12)], policy)
    for i, cpus in enumerate(amounts):
        for planner in (whole, parts):
            events.submit(planner, make_workload(f"w{i}", cpus, run=10, at=i), "q")
    expected = [workload.key for workload in schedule(whole, 20).admitted]
    admitted: list[str] = []
    while part := schedule(parts, 20, limit).admitted:
        assert len(part) <= limit
        admitted += [workload.key for workload in part]
    assert admitted == expected
