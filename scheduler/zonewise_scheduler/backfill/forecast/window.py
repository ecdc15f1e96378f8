"""The starts of pending workloads in the last sample paths; a new sample path replaces the oldest one.

A change therefore costs one sample path instead of all of them, and the number of samples does not depend on the number
of workloads. A start in the past is left out: the workload is still pending, so that sample path was wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.forecast.run_time_samples import MIN_SAMPLES, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.forecast.sample_paths import StartSamples


class RecentStarts:
    """The starts of each workload in the last SAMPLES sample paths."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: Mapping[str, StartSamples] = {}

    def add(self, sampled: Mapping[str, StartSamples]) -> None:
        """Add the starts in new sample paths, by key. Workloads that are not among them are forgotten."""
        self._by_key = {key: self._with_earlier(key, starts) for key, starts in sampled.items()}

    def samples(self, now: float) -> dict[str, StartSamples]:
        """Return the starts from now on, by key, of the workloads that were in at least MIN_SAMPLES sample paths."""
        return {
            key: sampled._replace(starts=tuple(start for start in sampled.starts if start >= now))
            for key, sampled in self._by_key.items()
            if len(sampled.starts) >= MIN_SAMPLES
        }

    def _with_earlier(self, key: str, sampled: StartSamples) -> StartSamples:
        """Return the starts of a workload in earlier sample paths, then those in new ones; none exceeds its bound."""
        earlier = self._by_key.get(key)
        if earlier is None or earlier.queue != sampled.queue:
            return sampled
        starts = (*(min(start, sampled.bound) for start in earlier.starts), *sampled.starts)
        return sampled._replace(starts=starts[-SAMPLES:])
