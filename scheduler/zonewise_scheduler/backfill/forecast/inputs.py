"""The inputs of a forecast: observed run times and submissions, of pool jobs or of workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

from zonewise_scheduler.backfill.forecast.arrival_history import ArrivalHistory, S

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeHistory


class ForecastInputs(NamedTuple, Generic[S]):
    """See the module."""

    run_times: RunTimeHistory
    arrivals: ArrivalHistory[S]

    def copy(self) -> ForecastInputs[S]:
        """Return independent inputs, for another thread."""
        return ForecastInputs(self.run_times.copy(), self.arrivals.copy())
