"""Advice as text and as JSON: the smallest value that meets a goal, and the curve of all simulated values.

The JSON document:

    schemaVersion   "zonewise.dev/advice/v1": fields may be added; none is renamed, removed or redefined
    scenario        trace, name, options of the command, problems of the trace
    policy          its name
    goal            text; statistic; group and name of the selected jobs, or ""; bound in seconds
    setting         name; present: its value in the trace, null if this is not a value of the search
    smallest        the smallest simulated value that meets the goal; null if none does
    neighboursThatMiss      values above it that miss the goal: outcomes are not monotone there
    meetsFrom       the value from which all simulated ones meet the goal; null if the highest misses it
    curve           every simulated value, ascending: value, wait in seconds (null: forever), jobs that the goal
                    counts, met, unstarted: all jobs that never start
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.simulator.advice.curve import AdviceCurve, CurvePoint
from zonewise_scheduler.simulator.advice.search import NEIGHBOURS
from zonewise_scheduler.simulator.report.json_document import options_object
from zonewise_scheduler.simulator.report.notes import count_noun
from zonewise_scheduler.simulator.report.number_format import format_durations

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.advice.goal import Goal
    from zonewise_scheduler.simulator.advice.search import SearchResult
    from zonewise_scheduler.simulator.advice.settings import AdvisedSetting
    from zonewise_scheduler.simulator.report.json_document import Object
    from zonewise_scheduler.simulator.report.result import TraceInfo

SCHEMA_VERSION = "zonewise.dev/advice/v1"
_NEVER = "never"
_GAP = "  "


class Advice(NamedTuple):
    """The search of one setting for one goal."""

    trace: TraceInfo
    policy: str
    setting: AdvisedSetting
    goal: Goal
    result: SearchResult


def advice_text(advice: Advice) -> str:
    """Return the curve as a table, and the advice in a sentence."""
    jobs = next(iter(advice.result.measured.values())).jobs
    head = f"{advice.trace.trace}: {advice.goal.text}, {jobs:,} jobs, policy {advice.policy}"
    return "\n".join([head, "", *_table(advice), "", *advice_sentences(advice), ""])


def advice_sentences(advice: Advice) -> list[str]:
    """Return the advice, and what the other simulated values mean for it."""
    setting, result = advice.setting, advice.result
    if result.smallest is None:
        lowest, highest = setting.text(min(result.measured)), setting.text(max(result.measured))
        return [
            f"No simulated value from {lowest} to {highest} meets the goal.",
            *_unstarted(advice, max(result.measured)),
        ]
    smallest = setting.text(result.smallest)
    sentences = [
        f"The smallest simulated value that meets the goal: {setting.name} {smallest}.",
        *_unstarted(advice, result.smallest),
    ]
    below = [position for position in result.measured if result.smallest - NEIGHBOURS <= position < result.smallest]
    if below:
        sentences.append(f"The next below miss it: {_values(setting, below)}.")
    else:
        sentences.append("It is the lowest value of the search.")
    missing = [at for at, measured in result.measured.items() if at > result.smallest and not measured.met]
    if missing:
        sentences.append(f"Starts are not monotone: above it {_values(setting, missing)} missed again.")
        if result.meets_from is not None:
            sentences.append(f"From {setting.text(result.meets_from)} on, every simulated value meets the goal.")
    elif result.smallest < max(result.measured):
        sentences.append("The next above meet it.")
    else:
        sentences.append("It is the highest value of the search.")
    return sentences


def _unstarted(advice: Advice, position: int) -> list[str]:
    """Return a sentence on jobs that never start with this value, since a goal may hold without them."""
    jobs, value = advice.result.measured[position].unstarted, advice.setting.text(position)
    verb = "starts" if jobs == 1 else "start"
    return [f"With {advice.setting.name} {value}, {count_noun(jobs, 'job')} never {verb}."] if jobs else []


def advice_document(advice: Advice) -> Object:
    """Return the document as JSON values."""
    trace, goal, setting, result = advice.trace, advice.goal, advice.setting, advice.result
    return {
        "schemaVersion": SCHEMA_VERSION,
        "scenario": {
            "trace": trace.trace,
            "name": trace.name,
            "options": options_object(trace.options),
            "problems": list(trace.problems),
        },
        "policy": advice.policy,
        "goal": {
            "text": goal.text,
            "statistic": goal.statistic,
            "group": goal.selection.group,
            "name": goal.selection.name,
            "bound": goal.bound,
        },
        "setting": {
            "name": setting.name,
            "present": None if setting.present is None else setting.value(setting.present),
        },
        "smallest": None if result.smallest is None else setting.value(result.smallest),
        "neighboursThatMiss": [setting.value(position) for position in result.missing_neighbours],
        "meetsFrom": None if result.meets_from is None else setting.value(result.meets_from),
        "curve": [
            {
                "value": setting.value(position),
                "wait": measured.wait if isfinite(measured.wait) else None,
                "jobs": measured.jobs,
                "met": measured.met,
                "unstarted": measured.unstarted,
            }
            for position, measured in result.measured.items()
        ],
    }


def advice_curve(advice: Advice) -> AdviceCurve:
    """Return the contents of the figure."""
    setting, result = advice.setting, advice.result
    points = {
        position: CurvePoint(setting.value(position), setting.text(position), measured.wait, measured.met)
        for position, measured in result.measured.items()
    }
    return AdviceCurve(
        title=f"{advice.trace.trace}: {advice.goal.text}",
        caption=" ".join(advice_sentences(advice)),
        setting=setting.name,
        statistic=advice.goal.label,
        bound=advice.goal.bound,
        points=list(points.values()),
        smallest=None if result.smallest is None else points[result.smallest],
    )


def _table(advice: Advice) -> list[str]:
    setting, result = advice.setting, advice.result
    waits = format_durations([measured.wait for measured in result.measured.values()])
    rows = [(setting.name, advice.goal.label, "goal", "")]
    for (position, measured), wait in zip(result.measured.items(), waits, strict=True):
        marks = [
            text for text, at in (("the smallest", result.smallest), ("present", setting.present)) if at == position
        ]
        text = wait if isfinite(measured.wait) else _NEVER
        rows.append((setting.text(position), text, "met" if measured.met else "missed", ", ".join(marks)))
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [
        _GAP.join([value.rjust(first), wait.rjust(second), goal.ljust(len("missed")), mark]).rstrip()
        for value, wait, goal, mark in rows
    ]


def _values(setting: AdvisedSetting, positions: list[int]) -> str:
    return ", ".join(setting.text(position) for position in positions)
