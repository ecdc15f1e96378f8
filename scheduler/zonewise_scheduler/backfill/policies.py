"""Backfill policies as values, and their names."""

from __future__ import annotations

import re
import sys
from math import inf
from typing import NamedTuple

UNLIMITED_DEPTH = sys.maxsize
"""Depth at which every workload has a reservation: conservative backfilling."""
OVERRUN_EXTENSION = 60.0
"""Initial extension, in seconds, of the deadline of a workload that outlives its walltime: Slurm's bf_resolution
(slurm.conf.5; src/plugins/sched/backfill/backfill.c)."""
ENFORCEMENT_DELAY = 600.0
"""Seconds after the end of an enforced walltime by which the workload has ended, including grace periods."""
MAX_POSTPONED = 3
"""Number of due workloads of a queue with starts too far away after which a decision stops looking for one to
reserve."""


def extended_deadline(started_at: float, walltime: float, now: float) -> float:
    """Return the next deadline of a workload that has outlived its last one, in seconds.

    Up to ENFORCEMENT_DELAY, the extension is the time by which the workload is late, but at least a minute. In logs,
    half of the workloads that are a minute late end within half a minute to two minutes (HPC2N, SDSC DataStar, Sandia
    Ross). After that delay, the walltime is not enforced, so the workload is expected to run for as long again as it
    has run. Of processes of a given age, half run to twice that age (Harchol-Balter and Downey, ACM TOCS 15(3), 1997).
    """
    run = now - started_at
    overrun = run - walltime
    return now + (run if overrun > ENFORCEMENT_DELAY else max(OVERRUN_EXTENSION, overrun))


class BackfillPolicy(NamedTuple):
    """Which workloads may start before others, and which get reservations."""

    reserve_after: float = 0.0
    """Seconds of waiting after which any workload may get a reservation; infinite: there are no reservations."""
    reserve_after_base: float = inf
    """Seconds of waiting after which a workload of walltime 0 may get a reservation."""
    reserve_after_walltimes: float = 0.0
    """Additional wait of a longer workload, as a multiple of its walltime."""
    max_hold: float = inf
    """A start is reserved only if it is no further away than this fraction of the wait so far. Once the wait has
    reached `reserve_after`, any start may be reserved."""
    reserve_after_undeclared: float = inf
    """Seconds of waiting after which a workload without a walltime may get a reservation."""
    depth: int = 1
    """Maximum number of workloads of a queue that may have a reservation at the same time."""
    shortest_first: bool = False
    """Whether, within a priority, workloads that are not due are tried by walltime (SJBF) instead of in queue order."""
    age_weight: float = 0.0
    """Seconds of walltime that a second of waiting offsets in that order (backfill_key)."""
    presumed_walltime: float = inf
    """Walltime, in seconds, that a workload without one is presumed to have in that order."""
    overtaking: bool = True
    """Whether workloads may start before the head of their queue. If not: FIFO (StrictFIFO), without reservations."""
    eager: bool = False
    """Whether a workload that does not fit gets its reservation on arrival, before later ones of higher priority."""

    @property
    def reserves(self) -> bool:
        """Whether there are reservations at all."""
        return self.overtaking and self.depth > 0 and self.reserve_after < inf

    @property
    def shortest_reserve_age(self) -> float:
        """Seconds that every workload must wait before it may get a reservation."""
        return min(self.reserve_after, self.reserve_after_base, self.reserve_after_undeclared)

    def reserve_age(self, walltime: float) -> float:
        """Return the seconds of waiting after which a workload of this walltime may get a reservation."""
        if walltime == inf:
            return min(self.reserve_after, self.reserve_after_undeclared)
        return min(self.reserve_after, self.reserve_after_base + self.reserve_after_walltimes * walltime)

    def latest_start(self, now: float, since: float) -> float:
        """Return the latest start that may be reserved now for a workload that has waited since a time; in seconds."""
        wait = now - since
        return inf if wait >= self.reserve_after or self.max_hold == inf else now + self.max_hold * wait

    def backfill_key(self, walltime: float, since: float) -> float:
        """Return the sort key, within a priority, of a workload that is not due; ties keep the order of the queue.

        The key is walltime - age_weight * (now - since), without the part that all workloads share, so the order of two
        workloads never changes while they wait. `since`: time since which the workload has waited, in seconds.
        """
        if not self.shortest_first:
            return 0.0
        return (self.presumed_walltime if walltime == inf else walltime) + self.age_weight * since


DEFAULT_POLICY = "shortest-reserving"
"""Shortest first, where each second of waiting offsets half a second of walltime. A workload may get a reservation once
it has waited for 6 h plus six times its walltime. A start is reserved only if it is no further away than 0.3 of the
wait. After two weeks, any start may be reserved. A workload without a walltime is ordered as if it were 4 h, and may
get a reservation after three days (docs/concepts/backfill.md)."""
DEFAULT_RESERVE_AFTER = 14 * 24 * 3600.0
"""Seconds."""

_RESERVE_AFTER_BASE = 6 * 3600.0
_RESERVE_AFTER_WALLTIMES = 6.0
_RESERVE_AFTER_UNDECLARED = 72 * 3600.0
_MAX_HOLD = 0.3
_AGE_WEIGHT = 0.5
_PRESUMED_WALLTIME = 4 * 3600.0

_PLAIN = {
    "fifo": BackfillPolicy(overtaking=False),
    "greedy": BackfillPolicy(reserve_after=inf),
    "easy": BackfillPolicy(),
    "easy-sjbf": BackfillPolicy(shortest_first=True),
    "conservative": BackfillPolicy(depth=UNLIMITED_DEPTH, eager=True),
}
_DEPTH = re.compile(r"depth-(\d{1,9})")
POLICY_NAMES = (DEFAULT_POLICY, *_PLAIN, "depth-K")


def policy_named(name: str, reserve_after: float = DEFAULT_RESERVE_AFTER) -> BackfillPolicy:
    """Return a policy by name; `reserve_after`, in seconds, applies only to the default policy.

    Raises ValueError for an unknown name.
    """
    if name == DEFAULT_POLICY:
        return BackfillPolicy(
            reserve_after, _RESERVE_AFTER_BASE, _RESERVE_AFTER_WALLTIMES, _MAX_HOLD, _RESERVE_AFTER_UNDECLARED,
            shortest_first=True, age_weight=_AGE_WEIGHT, presumed_walltime=_PRESUMED_WALLTIME,
        )  # fmt: skip
    if depth := _DEPTH.fullmatch(name):
        return BackfillPolicy(depth=int(depth[1]), eager=True)
    if name not in _PLAIN:
        raise ValueError(f"policy: {name}: unknown policy; the policies are {', '.join(POLICY_NAMES)}")
    return _PLAIN[name]
