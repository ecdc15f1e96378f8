"""Why a pending workload waits, as the condition QuotaReserved=False shows it.

The reasons are Kueue's (apis/kueue/v1beta2/workload_types.go WorkloadQuotaReservedReason*, WorkloadDeactivated), and
BeginTime. Times are absolute, in UTC and rounded to the minute, so that a message remains true while nothing changes.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.dates import utc_clock
from zonewise_scheduler.backfill.explanation.message import UNKNOWN_TIME, explanation_message

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.explanation.explanation import Explanation
    from zonewise_scheduler.backfill.types import Forecast

MIN_SHIFT = 60.0
"""Minimum shift of a start, in seconds, for a new note."""
SHIFT_RATIO = 0.1
"""Minimum shift as a fraction of the time until the start. The larger of the two minimums applies."""


class PendingNote(NamedTuple):
    """The content of a condition on a pending workload."""

    reason: str
    message: str
    essence: str
    """The message without times, position and available amounts, all of which change constantly."""
    starts: tuple[float, ...] = ()
    """Times in the message, in seconds since 1970; infinite if unknown."""
    waits_for: tuple[str, ...] = ()
    """Keys of the workloads that must end first."""

    def differs_from(self, other: PendingNote, now: float) -> bool:
        """Return whether the note differs by more than a small shift of times."""
        if (self.reason, self.essence, len(self.starts)) != (other.reason, other.essence, len(other.starts)):
            return True
        return any(_is_shifted(old, new, now) for old, new in zip(other.starts, self.starts, strict=True))


def pending_note(explanation: Explanation, forecast: Forecast | None) -> PendingNote:
    """Return the note for an explanation; `forecast`: None if there is none.

    A workload that no queue accepts has no forecast, but an older one may not be replaced yet.
    """
    starts = [time for time in (explanation.begin_at or inf, explanation.start) if time < inf]
    essence = explanation_message(_without_amounts(explanation), lambda _time, _now: "")
    message = explanation_message(explanation, start_time)
    if forecast is not None and forecast.likely < inf and not explanation.queue_message:
        message += f"; {forecast_clause(forecast, explanation.now)}"
        starts += [forecast.likely, forecast.latest]
    return PendingNote(pending_reason(explanation), message, essence, tuple(starts), explanation.waits_for)


def invalid_note(problem: str) -> PendingNote:
    """Return the note for a Workload that cannot be read, or whose pods the API server would reject."""
    return PendingNote("Misconfigured", problem, problem)


def pending_reason(explanation: Explanation) -> str:
    """Return the reason of the condition."""
    if explanation.queue_message:
        return queue_reason(explanation.queue_message)
    shortages = explanation.shortages
    reasons = {
        "BeginTime": bool(explanation.begin_at),
        "ExceedsMaxQuota": bool(shortages) and all(shortage.exceeds_max_quota for shortage in shortages),
        "NoMatchingFlavor": bool(explanation.unsuitable_flavors) and not shortages,
        "TopologyPlacementFailed": explanation.placement_failure is not None,
        "WaitingForPreemptedWorkloads": bool(explanation.victims),
        "WaitingForQuota": bool(
            shortages or explanation.delayed_reservation or explanation.blocked_by or explanation.gated
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "PendingEvaluation")


def queue_reason(message: str) -> str:
    """Return the reason for a workload that no queue accepts; `message`: its clause (queue_router.py, explain.py)."""
    if message == "it is deactivated":
        return "Deactivated"
    if message.startswith("it is gated by "):
        return "AdmissionGated"
    return "Suspended" if " is inactive: " in message else "Misconfigured"  # names contain no spaces


def forecast_clause(forecast: Forecast, now: float) -> str:
    """Return a clause such as "starts about 14:20 UTC, at the latest 16:05 UTC"."""
    about = f"starts about {utc_clock(forecast.likely, now)}"
    return about if forecast.latest == inf else f"{about}, at the latest {utc_clock(forecast.latest, now)}"


def start_time(time: float, now: float) -> str:
    """Return a phrase for the time of a start, such as "at 16:05 UTC" or "now"."""
    if time == inf:
        return UNKNOWN_TIME
    return "now" if time <= now else f"at {utc_clock(time, now)}"


def _without_amounts(explanation: Explanation) -> Explanation:
    shortages = tuple(shortage._replace(available=0, not_lent=0) for shortage in explanation.shortages)
    return explanation._replace(position=0, shortages=shortages)


def _is_shifted(old: float, new: float, now: float) -> bool:
    if inf in (old, new):
        return old != new
    return abs(new - old) > max(MIN_SHIFT, SHIFT_RATIO * (old - now))
