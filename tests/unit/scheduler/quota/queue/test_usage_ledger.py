"""The decayed usage of LocalQueues."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.queue.usage_ledger import (
    UsageLedgerEntry,
    calculate_decayed_consumed,
    calculate_usage,
    push_penalty,
)

CONFIG = AdmissionFairSharingConfig(
    usage_half_life_time=10.0, usage_sampling_interval=5.0, resource_weights={"gpu": 10.0}
)


def test_half_of_the_usage_decays_each_half_life() -> None:
    entry = UsageLedgerEntry({"cpu": 8.0}, 0.0, {})
    assert calculate_decayed_consumed(entry, {}, 10.0, CONFIG).consumed == {"cpu": 4.0}
    assert calculate_decayed_consumed(entry, {"cpu": 2.0}, 10.0, CONFIG).consumed == {"cpu": 5.0}
    no_decay = AdmissionFairSharingConfig()
    assert calculate_decayed_consumed(entry, {"cpu": 2.0}, 10.0, no_decay).consumed == {"cpu": 8.0}


@given(st.floats(0.1, 50.0), st.floats(0.1, 50.0), st.floats(0.0, 9.0))
def test_two_samples_equal_one(first: float, second: float, cpus: float) -> None:
    """With constant usage, the number of samples does not matter."""
    entry, running = UsageLedgerEntry({"cpu": 3.0}, 0.0, {}), {"cpu": cpus}
    once = calculate_decayed_consumed(entry, running, first + second, CONFIG)
    twice = calculate_decayed_consumed(
        calculate_decayed_consumed(entry, running, first, CONFIG), running, first + second, CONFIG
    )
    assert once.consumed["cpu"] == pytest.approx(twice.consumed["cpu"])


def test_the_entry_penalty_equals_what_the_next_sample_adds() -> None:
    empty, requests, interval = UsageLedgerEntry({}, 0.0, {}), {"cpu": 8.0}, CONFIG.usage_sampling_interval
    entered = push_penalty(empty, requests, CONFIG)
    sampled = calculate_decayed_consumed(empty, requests, interval, CONFIG)
    assert calculate_usage(entered, 1.0, CONFIG) == pytest.approx(calculate_usage(sampled, 1.0, CONFIG))
    sampled_after_entry = calculate_decayed_consumed(entered, requests, interval, CONFIG)
    assert calculate_usage(sampled_after_entry, 1.0, CONFIG) == calculate_usage(sampled, 1.0, CONFIG)


def test_usage_depends_on_the_weights() -> None:
    """Resources and queues have weights; a queue of weight 0 is last."""
    entry = UsageLedgerEntry({"cpu": 4.0, "gpu": 1.0}, 0.0, {})
    assert [calculate_usage(entry, weight, CONFIG) for weight in (0.5, 1.0, 2.0, 4.0)] == [28.0, 14.0, 7.0, 3.5]
    assert calculate_usage(entry, 0.0, CONFIG) == math.inf


def test_penalties_are_added_to_past_usage() -> None:
    """A penalty is added for each resource, whether it was in use or not."""
    entry = UsageLedgerEntry({"cpu": 4.0, "memory": 1.0}, 0.0, {"cpu": 2.0, "gpu": 1.0})
    assert calculate_usage(entry, 1.0, AdmissionFairSharingConfig()) == 8.0
    config = AdmissionFairSharingConfig(usage_half_life_time=5.0, usage_sampling_interval=5.0)
    pushed = push_penalty(entry, {"cpu": 2.0, "memory": 6.0}, config)
    assert pushed == entry._replace(pending_penalty={"cpu": 3.0, "gpu": 1.0, "memory": 3.0})
