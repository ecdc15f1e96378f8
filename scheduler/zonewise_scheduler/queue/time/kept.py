"""What was promised, as a plain value, so that a scheduler that is started anew keeps it.

The new State is given the same jobs as the old one had, those that run with the starts that they had; then it is told
what was promised, and only then, by its verbs, what has happened since. No later decision is another than it would have
been without the restart, unless a job had outlived its run time: then it is expected to run for another while from now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.time.timetable import Timetable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.queue.time.state import Policy, State


class Kept(NamedTuple):
    """Promises by the names of jobs, which are unique."""

    starts: Mapping[str, float] = {}
    """Of policies with several reservations; infinite where the start is unknown."""
    holder: str = ""
    """Whom the one reservation is promised to; "": nobody."""


def keep(policy: Policy, state: State) -> Kept:
    """Return what is promised, between two decisions."""
    if isinstance(policy, Timetable):
        return Kept({job.name: start for job, start in policy.starts.items()})
    return Kept(holder="" if state.holder is None else state.holder.name)


def restore(kept: Kept, policy: Policy, now: float, state: State) -> None:
    """Promise the same to the jobs of a new State, by a new policy; those that no longer wait are passed over.

    All that run must end after now (State.overrun).
    """
    by_name = {job.name: job for job in state.waiting}
    state.holder = by_name.get(kept.holder)
    if isinstance(policy, Timetable):
        policy.resume({by_name[name]: start for name, start in kept.starts.items() if name in by_name}, now, state)
