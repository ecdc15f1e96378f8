"""How long jobs are likely to run, from how long their like did: for forecasts alone, never for a decision.

What a user submits is much like what that user ran last (Tsafrir, Etsion and Feitelson, TPDS 2007), all the more so
from the same queue or template. So the last few run times are kept for each circle of kin, and the narrowest circle
that knows enough is asked.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

SAMPLES_PER_GROUP = 10
"""Run times of a circle."""
MIN_SAMPLES = 3
_SHORT, _MIDDLE = 0.1, 0.5


class RunTimeEstimate(NamedTuple):
    """How long a job runs in all, in seconds; infinite where unknown."""

    short: float
    likely: float
    longest: float
    """The declared run time."""


class WalltimeSubject(Protocol):
    """A job, as far as its run time is concerned."""

    @property
    def walltime(self) -> float:
        """Declared run time in seconds; infinite where none is declared."""
        ...

    @property
    def history_keys(self) -> tuple[Hashable, ...]:
        """Whose run times its own is likely to resemble, from the widest circle in."""
        ...


class RunTimeHistory:
    """The last run times of each circle."""

    __slots__ = ("_circles",)

    def __init__(self) -> None:
        self._circles: dict[tuple[Hashable, ...], deque[float]] = {}

    def observe(self, job: WalltimeSubject, run_time: float) -> None:
        """Take in how long a job ran."""
        for size in range(1, len(job.history_keys) + 1):
            self._circles.setdefault(job.history_keys[:size], deque(maxlen=SAMPLES_PER_GROUP)).append(run_time)

    def estimate(self, job: WalltimeSubject, elapsed: float = 0.0) -> RunTimeEstimate:
        """Return how long a job runs that has done so for a while; what ended sooner says nothing of it.

        Of a job whose kin are not known enough, it may end at once or take all that it declares.
        """
        longest = max(job.walltime, elapsed)
        for size in range(len(job.history_keys), 0, -1):
            known = sorted(run for run in self._circles.get(job.history_keys[:size], ()) if run >= elapsed)
            if len(known) >= MIN_SAMPLES:
                short, likely = known[int(_SHORT * len(known))], known[int(_MIDDLE * len(known))]
                return RunTimeEstimate(min(short, longest), min(likely, longest), longest)
        return RunTimeEstimate(elapsed, longest, longest)
