"""The usage history of LocalQueues, if admission follows usage (pkg/util/admissionfairsharing, KEP-4136).

Usage decays: after each half-life, half of it counts. An admitted workload counts at once with the amount that it adds
by the next sample (the entry penalty). A burst of admissions from one LocalQueue therefore counts before that sample.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig

ResourceSums = dict[str, float]
"""Amounts by resource, in its unit: CPUs, bytes, counts."""


class UsageLedgerEntry(NamedTuple):
    """The usage history of one LocalQueue."""

    consumed: Mapping[str, float]
    """The decayed usage at the last sample."""
    last_update: float
    """Time of the last sample, in seconds."""
    pending_penalty: Mapping[str, float]
    """The entry penalties since the last sample."""


def calculate_decayed_consumed(
    entry: UsageLedgerEntry, running: Mapping[str, float], now: float, config: AdmissionFairSharingConfig
) -> UsageLedgerEntry:
    """Return the next sample; `running`: the current usage of the LocalQueue."""
    alpha = config.alpha_rate(now - entry.last_update)
    consumed = {name: amount * (1.0 - alpha) for name, amount in entry.consumed.items()}
    for name, amount in running.items():
        consumed[name] = consumed.get(name, 0.0) + amount * alpha
    return UsageLedgerEntry(consumed, now, {})


def push_penalty(
    entry: UsageLedgerEntry, requests: Mapping[str, float], config: AdmissionFairSharingConfig
) -> UsageLedgerEntry:
    """Add the entry penalty of a workload that is admitted now."""
    alpha = config.alpha_rate(config.usage_sampling_interval)
    penalty = {name: amount * alpha for name, amount in requests.items()}
    return entry._replace(pending_penalty=_sum(entry.pending_penalty, penalty))


def calculate_usage(entry: UsageLedgerEntry, weight: float, config: AdmissionFairSharingConfig) -> float:
    """Return the usage by which LocalQueues are compared; infinite for weight 0, which comes last."""
    if not weight:
        return math.inf
    weights = config.resource_weights or {}
    sums = _sum(entry.consumed, entry.pending_penalty)
    return sum(weights.get(name, 1.0) * sums[name] for name in sorted(sums)) / weight


def _sum(a: Mapping[str, float], b: Mapping[str, float]) -> ResourceSums:
    return {name: a.get(name, 0.0) + b.get(name, 0.0) for name in a.keys() | b.keys()}
