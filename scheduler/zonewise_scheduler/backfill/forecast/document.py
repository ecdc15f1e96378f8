"""The history of forecasts as plain values, so that a restart does not lose it.

A document holds only dicts, lists, strings and numbers, plus pod sets, which are NamedTuples of these. An unknown or
infinite number is None. Times are whole seconds, and scores have three decimals. Identical submissions refer to a
template by its index, and runs to a group.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from zonewise_scheduler.backfill.forecast.calibration import (
    CLAIMED_COVERAGE,
    LIKELY_LEVEL,
    CalibrationState,
    ForecastCalibration,
    GroupScores,
    OpenForecast,
)
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.backfill.forecast.run_time_history import ObservedRun
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise_scheduler.backfill.forecast.sample_paths import SubmittedWorkload

Keys = list[str]
"""Workload.history_keys."""


class TemplateDocument(TypedDict):
    """The fields that identical submissions share; see Workload."""

    cluster_queue: str
    namespace: str
    queue_name: str
    priority: int
    walltime: float | None
    history_keys: Keys
    pod_sets: tuple[PodSet, ...]
    preemption_gated: bool
    allowed_flavors: list[str] | None
    owned_by_single_pod: bool
    has_default_walltime: NotRequired[bool]
    """Absent in older documents: the walltime counts as declared."""


class ForecastDocument(TypedDict):
    """See the module."""

    templates: list[TemplateDocument]
    arrivals: list[tuple[int, float, float | None, str, str]]
    """Template, time and run time, plus key and UID if the workload has not ended."""
    groups: list[tuple[Keys, float | None]]
    """History keys and walltime."""
    runs: list[tuple[int, float]]
    """Group and run time, in the order in which the runs ended."""
    open_forecasts: NotRequired[list[tuple[str, str, float, list[float], float, float]]]
    """Key of the workload, queue, and the other fields of OpenForecast. Older forecasts, which had no interval, have
    another name and are not read."""
    rank_scores: NotRequired[list[tuple[str | None, list[float]]]]
    """Scores by queue; None for all queues. Older scores, which were not ranks, have other names and are not read."""
    upper_level: NotRequired[float]
    """Level of the upper quantile; absent in older documents."""
    likely_level: NotRequired[float]
    """Level of the likely start if the wait is long; absent in older documents."""


def make_forecast_document(history: ForecastHistory, share: float = 1.0) -> ForecastDocument:
    """Return the document of a history; `share`: fraction of the newest entries of each kind, from 0 to 1."""
    templates: dict[tuple[int, str, tuple[Hashable, ...]], int] = {}
    template_documents: list[TemplateDocument] = []
    arrivals: list[tuple[int, float, float | None, str, str]] = []
    for arrival in history.arrivals.newest(int(share * len(history.arrivals))):
        submitted = arrival.subject
        template = id(submitted.workload), submitted.queue, submitted.history_keys
        index = templates.setdefault(template, len(templates))
        if index == len(template_documents):
            template_documents.append(_template_document(submitted))
        key, uid = cast("tuple[str, str]", arrival.key) if arrival.run_time is None else ("", "")
        arrivals.append((index, round(arrival.time), _rounded(arrival.run_time), key, uid))
    groups: dict[tuple[tuple[Hashable, ...], float], int] = {}
    observed = list(history.run_times.observed)
    runs = [
        (groups.setdefault((run.history_keys, run.walltime), len(groups)), round(run.run_time, 1))
        for run in observed[len(observed) - int(share * len(observed)) :]
    ]
    state = history.calibration.state(share)
    return {
        "templates": template_documents,
        "arrivals": arrivals,
        "groups": [([str(key) for key in keys], _finite(walltime)) for keys, walltime in groups],
        "runs": runs,
        "open_forecasts": [
            (
                str(forecast.key),
                str(forecast.group),
                round(forecast.time, 1),
                [round(logarithm, 3) for logarithm in forecast.logarithms],
                round(forecast.earliest, 1),
                round(forecast.latest, 1),
            )
            for forecast in state.open
        ],
        "rank_scores": [
            (None if group is None else str(group), [round(score, 3) for score in scores])
            for group, scores in state.scores
        ],
        "upper_level": round(state.upper_level, 4),
        "likely_level": round(state.likely_level, 2),
    }


def read_forecast_document(document: ForecastDocument) -> ForecastHistory:
    """Return the history in a document. Raises IndexError if it refers to an unknown template or group.

    A negative run time counts as 0: older versions recorded some when a clock was set back.
    """
    history = ForecastHistory()
    submitted = [
        history.submitted_workload(_workload(template), template["cluster_queue"]) for template in document["templates"]
    ]
    for number, (index, time, run_time, key, uid) in enumerate(document["arrivals"]):
        arrival_key = (key, uid) if run_time is None else ("", f"{number}")  # it has ended, so nothing more is learned
        history.arrivals.observe(arrival_key, submitted[index], time)
        if run_time is not None:
            history.arrivals.observe_end(arrival_key, max(run_time, 0.0))
    groups = [(tuple(keys), _walltime(walltime)) for keys, walltime in document["groups"]]
    for index, run_time in document["runs"]:
        keys, walltime = groups[index]
        history.run_times.observe(ObservedRun(run_time, walltime, keys), max(run_time, 0.0))
    history.calibration = ForecastCalibration.from_state(
        CalibrationState(
            tuple(
                OpenForecast(key, group, time, tuple(logarithms), earliest, latest)
                for key, group, time, logarithms, earliest, latest in document.get("open_forecasts", ())
            ),
            tuple(GroupScores(group, tuple(scores)) for group, scores in document.get("rank_scores", ())),
            document.get("upper_level", CLAIMED_COVERAGE),
            document.get("likely_level", LIKELY_LEVEL),
        )
    )
    return history


def _template_document(submitted: SubmittedWorkload) -> TemplateDocument:
    workload = submitted.workload
    return {
        "cluster_queue": submitted.queue,
        "namespace": workload.namespace,
        "queue_name": workload.queue_name,
        "priority": workload.priority,
        "walltime": _finite(workload.walltime),
        "history_keys": [str(key) for key in submitted.history_keys],
        "pod_sets": workload.pod_sets,
        "preemption_gated": workload.preemption_gated,
        "allowed_flavors": None if workload.allowed_flavors is None else sorted(workload.allowed_flavors),
        "owned_by_single_pod": workload.owned_by_single_pod,
        "has_default_walltime": workload.has_default_walltime,
    }


def _workload(template: TemplateDocument) -> Workload:
    flavors = template["allowed_flavors"]
    workload = Workload(template["namespace"], "", template["pod_sets"], queue_name=template["queue_name"])
    return replace(
        workload,
        priority=template["priority"],
        walltime=_walltime(template["walltime"]),
        history_keys=tuple(template["history_keys"]),
        preemption_gated=template["preemption_gated"],
        allowed_flavors=None if flavors is None else frozenset(flavors),
        owned_by_single_pod=template["owned_by_single_pod"],
        has_default_walltime=template.get("has_default_walltime", False),
    )


def _rounded(run_time: float | None) -> float | None:
    return None if run_time is None else round(run_time, 1)


def _finite(walltime: float) -> float | None:
    return None if walltime == inf else walltime


def _walltime(walltime: float | None) -> float:
    return inf if walltime is None else walltime
