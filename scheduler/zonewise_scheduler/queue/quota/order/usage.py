"""What LocalQueues have used lately, where admission follows usage (pkg/util/admissionfairsharing, KEP-4136).

What was used decays: half of it is forgotten each half-life. A workload that is admitted counts at once with what it
will add by the next sample, so that a burst of admissions of one queue does not go unseen until then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.queue.quota.model.workload import Decay

Sums = dict[str, float]
"""By resource, in its unit: CPUs, bytes, counts."""


class Used(NamedTuple):
    """Of one LocalQueue."""

    consumed: Mapping[str, float]
    """At the last sample."""
    at: float
    """When that was, seconds."""
    entering: Mapping[str, float]
    """What was admitted since counts for."""


def sample(used: Used, running: Mapping[str, float], now: float, decay: Decay) -> Used:
    """Return the next sample, with what runs of the queue now."""
    rate = decay.rate(now - used.at)
    consumed = {name: amount * (1.0 - rate) for name, amount in used.consumed.items()}
    for name, amount in running.items():
        consumed[name] = consumed.get(name, 0.0) + amount * rate
    return Used(consumed, now, {})


def enter(used: Used, requests: Mapping[str, float], decay: Decay) -> Used:
    """Count a workload that is admitted now."""
    rate = decay.rate(decay.sampling)
    return used._replace(entering=_sum(used.entering, {name: one * rate for name, one in requests.items()}))


def usage(used: Used, weight: float, decay: Decay) -> float:
    """Return what queues are compared by; infinite for a queue of weight 0, which comes last."""
    if weight <= 0:
        return math.inf
    weights = decay.weights or {}
    sums = _sum(used.consumed, used.entering)
    return sum(weights.get(name, 1.0) * sums[name] for name in sorted(sums)) / weight


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> Sums:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in one.keys() | other.keys()}
