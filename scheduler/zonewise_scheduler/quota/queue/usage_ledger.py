"""What LocalQueues have used lately, where admission follows usage (pkg/util/admissionfairsharing, KEP-4136).

What was used decays: half of it is forgotten each half-life. A workload that is admitted counts at once with what it
will add by the next sample, so that a burst of admissions of one queue does not go unseen until then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.workload_types import AdmissionFairSharingConfig

ResourceSums = dict[str, float]
"""By resource, in its unit: CPUs, bytes, counts."""


class UsageLedgerEntry(NamedTuple):
    """Of one LocalQueue."""

    consumed: Mapping[str, float]
    """At the last sample."""
    last_update: float
    """When that was, seconds."""
    pending_penalty: Mapping[str, float]
    """What was admitted since counts for."""


def calculate_decayed_consumed(
    entry: UsageLedgerEntry, running: Mapping[str, float], now: float, config: AdmissionFairSharingConfig
) -> UsageLedgerEntry:
    """Return the next sample, with what runs of the queue now."""
    rate = config.alpha_rate(now - entry.last_update)
    consumed = {name: amount * (1.0 - rate) for name, amount in entry.consumed.items()}
    for name, amount in running.items():
        consumed[name] = consumed.get(name, 0.0) + amount * rate
    return UsageLedgerEntry(consumed, now, {})


def push_penalty(
    entry: UsageLedgerEntry, requests: Mapping[str, float], config: AdmissionFairSharingConfig
) -> UsageLedgerEntry:
    """Count a workload that is admitted now."""
    rate = config.alpha_rate(config.usage_sampling_interval)
    return entry._replace(
        pending_penalty=_sum(entry.pending_penalty, {name: one * rate for name, one in requests.items()})
    )


def calculate_usage(entry: UsageLedgerEntry, weight: float, config: AdmissionFairSharingConfig) -> float:
    """Return what queues are compared by; infinite for a queue of weight 0, which comes last."""
    if weight <= 0:
        return math.inf
    weights = config.resource_weights or {}
    sums = _sum(entry.consumed, entry.pending_penalty)
    return sum(weights.get(name, 1.0) * sums[name] for name in sorted(sums)) / weight


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> ResourceSums:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in one.keys() | other.keys()}
