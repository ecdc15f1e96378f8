"""When each waiting workload is likely to start: the planner itself, played forward on a copy.

Three times: as if every workload ran only as long as the short ones of its kin, as long as the middle one, and as long
as it declares (queue.time.learned). What is decided on the way is decided by the declared run times, as it will be.
Workloads that come later and overtake are not foretold, so `latest` is a promise only with a reservation.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.quota.model.workload import Eviction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.queue.plan.planner import Planner
    from zonewise_scheduler.queue.time.learned import Lengths, RunTimes

MOST = 10_000
"""Decisions that are played forward at most; what has not started by then is unknown."""
_VIEWS = range(3)
_LONGEST = 2


class Forecast(NamedTuple):
    """Starts of a waiting workload, ascending; infinite where run times are unknown that it depends on, or too far."""

    key: str
    earliest: float
    likely: float
    latest: float


def forecasts(
    planner: Planner, now: float, learned: RunTimes, keys: Iterable[str] | None = None, most: int = MOST
) -> dict[str, Forecast]:
    """Return when waiting workloads start, by key; the planner is not changed.

    `keys`: of whom to tell, None: of all; with fewer, no more is played than it takes. `most`: so many decisions of
    each view. Raises KeyError where one does not wait.
    """
    wanted = list(planner.waiting if keys is None else keys)
    for key in wanted:
        planner.waiting[key]
    lengths = _lengths(planner, now, learned)
    promised = planner.promised.made
    played: list[dict[str, float]] = []
    for view in _VIEWS:
        same = next((one for one in range(view) if _same(lengths.values(), one, view)), view)
        played.append(played[same] if same < view else _Play(planner, now, lengths, view).run(wanted, most))
    found: dict[str, Forecast] = {}
    for key in wanted:
        short, likely, longest = (one.get(key, inf) for one in played)
        bound = max(promised[key].start, now) if key in promised else inf
        likely = min(likely, bound)
        found[key] = Forecast(key, min(short, likely, longest), likely, min(max(likely, longest), bound))
    return found


def _lengths(planner: Planner, now: float, learned: RunTimes) -> dict[str, Lengths]:
    """Return how long all take in all that run or wait, by key."""
    found = {key: learned.lengths(one) for key, one in planner.each_waiting()}
    for key, run in planner.running.items():
        since = _since(run.workload)
        found[key] = learned.lengths(run.workload, now - since)._replace(longest=run.end - since)
    return found


def _same(lengths: Iterable[Lengths], one: int, other: int) -> bool:
    return all(each[one] == each[other] for each in lengths)
