"""The starts of pending workloads in the last plays: a new play replaces the oldest one.

So a change costs one play and not all of them, and many workloads have as many samples as few. A start that has passed
is left out: the workload is pending, so that play was wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.run_time_samples import MIN_SAMPLES, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.forecast import StartSamples


class RecentStarts:
    """Of each workload the starts in the last SAMPLES plays."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: Mapping[str, StartSamples] = {}

    def add(self, played: Mapping[str, StartSamples]) -> None:
        """Add the starts in new plays, by key. Workloads that are not among these are forgotten."""
        self._by_key = {key: self._with_earlier(key, sampled) for key, sampled in played.items()}

    def samples(self, now: float) -> dict[str, StartSamples]:
        """Return the starts from now on, by key, of workloads that MIN_SAMPLES plays have had."""
        return {
            key: sampled._replace(starts=tuple(start for start in sampled.starts if start >= now))
            for key, sampled in self._by_key.items()
            if len(sampled.starts) >= MIN_SAMPLES
        }

    def _with_earlier(self, key: str, sampled: StartSamples) -> StartSamples:
        """Return the starts of a workload in new plays after those in earlier ones; none is later than it may be."""
        earlier = self._by_key.get(key)
        if earlier is None or earlier.queue != sampled.queue:
            return sampled
        starts = (*(min(start, sampled.bound) for start in earlier.starts), *sampled.starts)
        return sampled._replace(starts=starts[-SAMPLES:])
