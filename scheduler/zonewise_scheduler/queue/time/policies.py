"""The policies over one pool of resources, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.time.backfill import Backfill
from zonewise_scheduler.queue.time.rules import RESERVE_AFTER, rules_named
from zonewise_scheduler.queue.time.timetable import Timetable

if TYPE_CHECKING:
    from zonewise_scheduler.queue.time.rules import Rules
    from zonewise_scheduler.queue.time.state import Policy


def policy_named(name: str, reserve_after: float = RESERVE_AFTER) -> Policy:
    """Return a policy; one for each State. `reserve_after`, in seconds, is of the default alone.

    Raises ValueError for a name that there is not.
    """
    return policy_of(rules_named(name, reserve_after))


def policy_of(rules: Rules) -> Policy:
    """Return what decides by these rules."""
    if rules.eager or rules.depth != 1:
        return Timetable(rules.depth, rules.reserve_after, shortest_first=rules.shortest_first)
    return Backfill(rules.reserve_after, shortest_first=rules.shortest_first, overtaking=rules.overtaking)
