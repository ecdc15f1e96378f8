"""The decayed usage of LocalQueues."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.queue.usage_ledger import (
    UsageLedgerEntry,
    add_penalty,
    calculate_decayed_consumed,
    calculate_usage,
    withdraw_penalty,
)

CONFIG = AdmissionFairSharingConfig(
    usage_half_life_time=10.0, usage_sampling_interval=5.0, resource_weights={"gpu": 10.0}
)


def test_half_of_the_usage_decays_each_half_life() -> None:
    entry = UsageLedgerEntry({"cpu": 8.0}, 0.0)
    assert calculate_decayed_consumed(entry, {}, 10.0, CONFIG).consumed == {"cpu": 4.0}
    assert calculate_decayed_consumed(entry, {"cpu": 2.0}, 10.0, CONFIG).consumed == {"cpu": 5.0}
    no_decay = AdmissionFairSharingConfig()
    assert calculate_decayed_consumed(entry, {"cpu": 2.0}, 10.0, no_decay).consumed == {"cpu": 8.0}


@given(st.floats(0.1, 50.0), st.floats(0.1, 50.0), st.floats(0.0, 9.0))
def test_two_samples_equal_one(first: float, second: float, cpus: float) -> None:
    """With constant usage, the number of samples does not matter."""
    entry, running = UsageLedgerEntry({"cpu": 3.0}, 0.0), {"cpu": cpus}
    once = calculate_decayed_consumed(entry, running, first + second, CONFIG)
    twice = calculate_decayed_consumed(
        calculate_decayed_consumed(entry, running, first, CONFIG), running, first + second, CONFIG
    )
    assert once.consumed["cpu"] == pytest.approx(twice.consumed["cpu"])


def test_the_entry_penalty_equals_what_a_sample_adds_and_decays_like_usage() -> None:
    """It remains after the next sample: a workload that ends before it counts too."""
    empty, requests, interval = UsageLedgerEntry({}, 0.0), {"cpu": 8.0}, CONFIG.usage_sampling_interval
    entered = add_penalty(empty, requests, CONFIG)
    sampled = calculate_decayed_consumed(empty, requests, interval, CONFIG)
    assert calculate_usage(entered, 1.0, CONFIG) == pytest.approx(calculate_usage(sampled, 1.0, CONFIG))
    later = calculate_decayed_consumed(entered, {}, CONFIG.usage_half_life_time, CONFIG)
    assert calculate_usage(later, 1.0, CONFIG) == pytest.approx(calculate_usage(entered, 1.0, CONFIG) / 2)


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.5, 9.0), st.booleans()), min_size=1, max_size=8))
def test_only_admissions_that_were_carried_out_leave_a_penalty(admissions: list[tuple[float, float, bool]]) -> None:
    """Each penalty decays from its admission on. A sample may come before it is withdrawn."""
    entry, now, expected = UsageLedgerEntry({}, 0.0), 0.0, 0.0
    alpha, after_one = (CONFIG.alpha_rate(seconds) for seconds in (CONFIG.usage_sampling_interval, 1.0))
    for pause, cpus, is_carried_out in admissions:
        expected *= 1.0 - CONFIG.alpha_rate(pause)
        now += pause
        entry = add_penalty(calculate_decayed_consumed(entry, {}, now, CONFIG), {"cpu": cpus}, CONFIG)
        entry = calculate_decayed_consumed(entry, {}, now + 1.0, CONFIG)
        if not is_carried_out:
            entry = withdraw_penalty(entry, {"cpu": cpus}, now, CONFIG)
        expected = (expected + alpha * cpus * is_carried_out) * (1.0 - after_one)
        now += 1.0
    assert calculate_usage(entry, 1.0, CONFIG) == pytest.approx(expected, abs=1e-8)


def test_usage_depends_on_the_weights() -> None:
    """Resources and queues have weights; a queue of weight 0 is last."""
    entry = UsageLedgerEntry({"cpu": 4.0, "gpu": 1.0}, 0.0)
    assert [calculate_usage(entry, weight, CONFIG) for weight in (0.5, 1.0, 2.0, 4.0)] == [28.0, 14.0, 7.0, 3.5]
    assert calculate_usage(entry, 0.0, CONFIG) == math.inf


def test_penalties_are_added_to_past_usage() -> None:
    """A penalty is added for each resource, whether it was in use or not."""
    entry = UsageLedgerEntry({"cpu": 4.0, "memory": 1.0}, 0.0)
    config = AdmissionFairSharingConfig(usage_half_life_time=5.0, usage_sampling_interval=5.0)
    charged = add_penalty(entry, {"cpu": 2.0, "gpu": 6.0}, config)
    assert charged.consumed == {"cpu": 5.0, "gpu": 3.0, "memory": 1.0}
    assert calculate_usage(charged, 1.0, AdmissionFairSharingConfig()) == 9.0


@pytest.mark.parametrize("admitted_at", [7.0, 7.5])
def test_a_penalty_that_is_withdrawn_at_once_leaves_nothing(admitted_at: float) -> None:
    """Even if the clock was set back since the admission. Resources that were not requested keep their usage."""
    entry = UsageLedgerEntry({"cpu": 1.0, "gpu": 3.0}, 7.0)
    charged = add_penalty(entry, {"cpu": 8.0}, CONFIG)
    withdrawn = withdraw_penalty(charged, {"cpu": 8.0}, admitted_at, CONFIG).consumed
    assert withdrawn == pytest.approx(entry.consumed)
    assert withdraw_penalty(charged, {"cpu": 99.0}, admitted_at, CONFIG).consumed["cpu"] == 0.0
