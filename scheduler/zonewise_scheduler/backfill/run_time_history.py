"""Predicted run times of workloads, from those of similar ones: for forecasts only, never for a decision.

A user's next job runs about as long as the last ones (Tsafrir, Etsion and Feitelson, TPDS 2007), the more so within a
queue or a template. So each group keeps its last run times, and the narrowest group with enough samples predicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

SAMPLES_PER_GROUP = 10
"""How many run times a group keeps."""
MAX_GROUPS = 20_000
"""How many groups are kept; the group that was first observed longest ago is forgotten first."""
MIN_SAMPLES = 3
"""How many run times a group needs to predict."""
_SHORT_QUANTILE, _LIKELY_QUANTILE = 0.1, 0.5


class RunTimeEstimate(NamedTuple):
    """Whole run times, ascending, seconds; infinite where unknown."""

    short: float
    likely: float
    longest: float
    """The walltime."""


class WalltimeSubject(Protocol):
    """A workload or job whose run time is predicted."""

    @property
    def walltime(self) -> float:
        """Declared run time, an upper bound, seconds; infinite where none is declared."""
        ...

    @property
    def history_keys(self) -> tuple[Hashable, ...]:
        """What groups it with similar ones, the widest group first: (user, queue, template)."""
        ...


class RunTimeHistory:
    """The last run times of each group."""

    __slots__ = ("_run_times",)

    def __init__(self) -> None:
        self._run_times: dict[tuple[Hashable, ...], tuple[float, ...]] = {}
        """The last comes last. Tuples, which copies share."""

    def observe(self, subject: WalltimeSubject, run_time: float) -> None:
        """Add a finished run, in seconds, to its groups."""
        for size in range(1, len(subject.history_keys) + 1):
            group = subject.history_keys[:size]
            self._run_times[group] = (*self._run_times.get(group, ()), run_time)[-SAMPLES_PER_GROUP:]
        while len(self._run_times) > MAX_GROUPS:
            del self._run_times[next(iter(self._run_times))]

    def copy(self) -> RunTimeHistory:
        """Return an independent copy."""
        other = RunTimeHistory()
        other._run_times = dict(self._run_times)
        return other

    def estimate(self, subject: WalltimeSubject, elapsed: float = 0.0) -> RunTimeEstimate:
        """Return the predicted run time of a subject that has run for `elapsed` seconds; shorter samples do not count.

        Without enough samples it may end at once, or run for its walltime.
        """
        longest = max(subject.walltime, elapsed)
        for size in range(len(subject.history_keys), 0, -1):
            group = subject.history_keys[:size]
            samples = sorted(run_time for run_time in self._run_times.get(group, ()) if run_time >= elapsed)
            if len(samples) >= MIN_SAMPLES:
                short = samples[int(_SHORT_QUANTILE * len(samples))]
                likely = samples[int(_LIKELY_QUANTILE * len(samples))]
                return RunTimeEstimate(min(short, longest), min(likely, longest), longest)
        return RunTimeEstimate(elapsed, longest, longest)
