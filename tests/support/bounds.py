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
    """A gang that occupies one of several equal slots."""

    comes: float
    takes: float
    """Seconds from its start until its slot is free again."""


def earliest_end_offline(gangs: Sequence[Gang], slots: int) -> float:
    """Return a lower bound on the end of the last gang, for any policy with any knowledge: the largest of three bounds.

    1. Each gang needs its run time, from its submission on.
    2. From any time on, the slots must do all the work submitted from then on.
    3. Of the k * slots + 1 longest gangs, some slot runs k + 1. These are no shorter than the k + 1 shortest of them.
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

    The run times are independent and identically distributed, so each can be drawn as late as the gang's start.
    Whichever gang starts next, the rest is equally likely, so all orders are equally good. Leaving a slot free never
    helps: with the same draws, no later start would be earlier. The mean is over random orders of the same run times.
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
    """Return when the last gang ends if each gets the first slot that is free after its submission."""
    free = [0.0] * slots
    heapify(free)
    last = 0.0
    for come, take in zip(comes, takes, strict=True):
        end = max(come, free[0]) + take
        heapreplace(free, end)
        last = max(last, end)
    return last
