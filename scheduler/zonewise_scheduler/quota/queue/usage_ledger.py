"""The usage history of LocalQueues, if admission follows usage (pkg/util/admissionfairsharing, KEP-4136).

Usage decays: after each half-life, half of it counts. Each admission adds at once what the workload would use in a
sampling interval (the entry penalty). A burst of admissions from one LocalQueue therefore counts before the next
sample, and so do workloads that end before it (pkg/controller/core/workload_controller.go updateAfsConsumedUsage).
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
    """The decayed usage and entry penalties at the last update."""
    last_update: float
    """Time of the last sample or admission, in seconds."""


def calculate_decayed_consumed(
    entry: UsageLedgerEntry, running: Mapping[str, float], now: float, config: AdmissionFairSharingConfig
) -> UsageLedgerEntry:
    """Return the next sample; `running`: the current usage of the LocalQueue."""
    alpha = config.alpha_rate(now - entry.last_update)
    consumed = {name: amount * (1.0 - alpha) for name, amount in entry.consumed.items()}
    for name, amount in running.items():
        consumed[name] = consumed.get(name, 0.0) + amount * alpha
    return UsageLedgerEntry(consumed, now)


def add_penalty(
    entry: UsageLedgerEntry, requests: Mapping[str, float], config: AdmissionFairSharingConfig
) -> UsageLedgerEntry:
    """Add the entry penalty of a workload that is admitted at the time of the last update."""
    alpha = config.alpha_rate(config.usage_sampling_interval)
    consumed = dict(entry.consumed)
    for name, amount in requests.items():
        consumed[name] = consumed.get(name, 0.0) + amount * alpha
    return entry._replace(consumed=consumed)


def withdraw_penalty(
    entry: UsageLedgerEntry, requests: Mapping[str, float], admitted_at: float, config: AdmissionFairSharingConfig
) -> UsageLedgerEntry:
    """Remove what is left of the entry penalty of a workload whose admission was not carried out."""
    alpha = config.alpha_rate(config.usage_sampling_interval)
    left = alpha * (1.0 - config.alpha_rate(max(0.0, entry.last_update - admitted_at)))
    consumed = {name: max(0.0, amount - left * requests.get(name, 0.0)) for name, amount in entry.consumed.items()}
    return entry._replace(consumed=consumed)


def calculate_usage(entry: UsageLedgerEntry, weight: float, config: AdmissionFairSharingConfig) -> float:
    """Return the usage by which LocalQueues are compared; infinite for weight 0, which comes last."""
    if not weight:
        return math.inf
    weights = config.resource_weights or {}
    return sum(weights.get(name, 1.0) * entry.consumed[name] for name in sorted(entry.consumed)) / weight
