"""The history that forecasts learn from: ended runs, submissions and the errors of earlier forecasts.

The live queue and the cluster simulator learn from these events, in one thread:

    event              what is learned
    a pass admits      the submission; the score of the workload's forecast
    a workload ends    its run time
    a forecast         it is open until its workload starts, then scored

A sample path takes long, so another thread may run it from copied_inputs(), which share no mutable value with the
history.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from zonewise_scheduler.backfill.forecast.arrival_history import ArrivalHistory
from zonewise_scheduler.backfill.forecast.calibration import ForecastCalibration
from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeHistory
from zonewise_scheduler.backfill.forecast.sample_paths import SubmittedWorkload

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping

    from zonewise_scheduler.backfill.forecast.sample_paths import StartSamples
    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.quota.api.workload_types import Workload


class ForecastHistory:
    """See the module."""

    def __init__(self) -> None:
        self.run_times = RunTimeHistory()
        self.arrivals: ArrivalHistory[SubmittedWorkload] = ArrivalHistory()
        self.calibration = ForecastCalibration()
        self._templates: WeakValueDictionary[Hashable, Workload] = WeakValueDictionary()
        """Workloads without names, times and history keys, which equal submissions share."""

    @property
    def inputs(self) -> ForecastInputs[SubmittedWorkload]:
        """The inputs of sample paths."""
        return ForecastInputs(self.run_times, self.arrivals)

    def copied_inputs(self) -> ForecastInputs[SubmittedWorkload]:
        """Return independent inputs, for another thread."""
        return self.inputs.copy()

    def copy(self) -> ForecastHistory:
        """Return an independent copy, for another thread."""
        other = ForecastHistory()
        other.run_times, other.arrivals = self.copied_inputs()
        other.calibration = self.calibration.copy()
        return other

    def admitted(self, workloads: Iterable[Workload], now: float) -> None:
        """Learn the submissions of workloads that a pass admits now, and score their forecasts."""
        for workload in workloads:
            self.calibration.started(workload.key, now)
            if workload.admission is not None:
                submitted = self.submitted_workload(workload, workload.admission.cluster_queue)
                self.arrivals.observe(arrival_key(workload), submitted, workload.created_at)

    def ended(self, workload: Workload, run_time: float) -> None:
        """Learn the run time of an ended workload, in seconds; if it is negative (clock set back), it counts as 0."""
        run_time = max(run_time, 0.0)
        self.run_times.observe(workload, run_time)
        self.arrivals.observe_end(arrival_key(workload), run_time)

    def forecasts(
        self, now: float, samples: Mapping[str, StartSamples], pending: Collection[str]
    ) -> dict[str, Forecast]:
        """Return the calibrated forecasts of sampled starts, by key, for the workloads that are still pending.

        `now`: the time of the samples. The wait of a workload counts from its begin time, if that is later.
        """
        self.calibration.keep(pending)
        forecasts: dict[str, Forecast] = {}
        for key, sampled in samples.items():
            if key in pending:
                since = max(now, sampled.begin_at)
                starts = sampled.starts if since == now else [max(start, since) for start in sampled.starts]
                forecasts[key] = self.calibration.forecast(key, sampled.queue, since, starts, sampled.bound)
        return forecasts

    def submitted_workload(self, workload: Workload, queue: str) -> SubmittedWorkload:
        """Return a workload as a submission that sample paths can replay."""
        template = replace(
            workload, name="", uid="", created_at=0.0, admission=None, eviction=None, reclaimable_pods={},
            active=True, unhealthy_nodes=(), failed_checks=(), history_keys=(), begin_at=0.0,
        )  # fmt: skip
        alike = (
            template.local_queue_key,
            template.scheduling_shape,
            template.walltime,
            template.has_default_walltime,
            template.owned_by_single_pod,
        )
        return SubmittedWorkload(self._templates.setdefault(alike, template), queue, workload.history_keys)


def arrival_key(workload: Workload) -> tuple[str, str]:
    """Return the identity of a workload's submission: its key and UID."""
    return workload.key, workload.uid
