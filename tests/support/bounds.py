"""Bounds on the makespan of any schedule of equal gangs."""

from __future__ import annotations

import random
from heapq import heapify, heapreplace
from itertools import accumulate
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Gang(NamedTuple):
    """A gang that takes one of so many equal slots: as many as there is room for at once."""

    comes: float
    takes: float
    """Seconds, from its start until its room is free again."""


def earliest_end_offline(gangs: Sequence[Gang], slots: int) -> float:
    """Return the earliest end of the last gang under any policy, with any knowledge: the largest of three bounds.

    1. Each gang takes its time from when it comes.
    2. From any time on, the slots have to do all the work that comes from then on.
    3. Of the k * slots + 1 longest gangs some slot has k + 1, and these are no shorter than the k + 1 shortest of them.
    """
    single = max(entry.comes + entry.takes for entry in gangs)
    late_first = sorted(gangs, reverse=True)
    work = accumulate(entry.takes for entry in late_first)
    area = max(entry.comes + done / slots for entry, done in zip(late_first, work, strict=True))
    longest = sorted((entry.takes for entry in gangs), reverse=True)
    begin = min(entry.comes for entry in gangs)
    shared = (sum(longest[k * slots - k : k * slots + 1]) for k in range(1, (len(gangs) - 1) // slots + 1))
    return max(single, area, *(begin + together for together in shared))


def earliest_end_online(gangs: Sequence[Gang], slots: int, tries: int = 30) -> float:
    """Return the mean earliest end of the last gang under any policy that knows no run time in advance.

    The run time of each gang is drawn alike and by itself, which is as good as a draw at its start. Whichever gang is
    started next, what is to follow is equally likely, so all orders are equally good. To leave a slot free is never
    better: with the same draws, no later start would be earlier. The mean is over orders of the same run times.
    """
    chance = random.Random(0)
    comes = sorted(entry.comes for entry in gangs)
    takes = [entry.takes for entry in gangs]
    ends: list[float] = []
    for _ in range(tries):
        chance.shuffle(takes)
        ends.append(_last_end(comes, takes, slots))
    return mean(ends)


def _last_end(comes: Sequence[float], takes: Sequence[float], slots: int) -> float:
    """Return when the last ends if each has the first slot that is free once it has come."""
    free = [0.0] * slots
    heapify(free)
    last = 0.0
    for come, take in zip(comes, takes, strict=True):
        end = max(come, free[0]) + take
        heapreplace(free, end)
        last = max(last, end)
    return last
